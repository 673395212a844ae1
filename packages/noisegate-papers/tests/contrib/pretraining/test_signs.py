import torch

from noisegate_images.networks.drawing import LATENT
from noisegate_images.networks.strokes import NUMBERS
from noisegate_papers.contrib.pretraining.signs import draw_signs
from noisegate_papers.contrib.pretraining.strokes import train_decoder, train_encoder


def test_a_short_training_leads_away_from_the_start_and_follows_from_the_seed():
    pixels, labels = draw_signs(8, 6, seed=3)
    images, signs = torch.from_numpy(pixels), torch.from_numpy(labels)
    first, again = (train_encoder(images, signs, steps=25, seed=0, batch=32) for _ in range(2))
    pictures = images.float().div(255).reshape(-1, 1, 28, 28)
    vectors = torch.nn.functional.normalize(first(pictures), dim=1)
    assert vectors.shape == (48, NUMBERS)
    assert torch.equal(vectors, torch.nn.functional.normalize(again(pictures), dim=1))
    alike, same = vectors @ vectors.T, signs[:, None] == signs
    assert alike[same & ~torch.eye(48, dtype=torch.bool)].mean() > alike[~same].mean() + 0.1
    short, long = (train_decoder(images, steps=steps, seed=0, batch=32) for steps in (1, 40))
    mean = pictures.mean(dim=0)
    apart = [
        float((net(torch.randn(64, LATENT)).detach().sigmoid().mean(dim=0) - mean).square().mean())
        for net in (short, long)
    ]
    assert apart[1] < apart[0] / 2
