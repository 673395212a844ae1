from noisegate.schema import ImageShape, pixel_schema


def test_columns_are_the_pixels_in_order_and_then_the_label():
    schema = pixel_schema(2, 3, labels=("cat", "dog"), label="animal")
    assert schema.names == ("pixel_0_0", "pixel_0_1", "pixel_0_2", "pixel_1_0", "pixel_1_1", "pixel_1_2", "animal")
    assert schema.label == "animal" and schema.column("animal").levels == ("cat", "dog")
    assert all((column.lower, column.upper, column.missing) == (0, 255, False) for column in schema.layout.numeric)


def test_channels_of_a_pixel_stand_side_by_side():
    names = pixel_schema(1, 2, 3, labels=(0, 1)).names
    assert names[:4] == ("pixel_0_0_0", "pixel_0_0_1", "pixel_0_0_2", "pixel_0_1_0") and len(names) == 7


def test_a_shape_knows_its_size_and_says_it():
    shape = ImageShape(height=28, width=14, channels=3)
    assert (shape.size, str(shape)) == (1176, "28 x 14 x 3")
