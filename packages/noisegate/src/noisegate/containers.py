"""Recognises the containers of tables in memory without importing their packages."""

import sys
from typing import Any

TABLES = (
    "a pandas, Polars or PyArrow table, a query of DuckDB, Ibis or DataFusion, a dict "
    "of columns, a NumPy array or a Hugging Face data set"
)
"""What is taken for a table in memory, in words."""


def of_package(data: Any, package: str, name: str) -> bool:
    """Returns whether `data` is an instance of a class of a package.

    A package that was not imported by now cannot have made it, so none is imported.

    Args:
        data: Any object.
        package: Full name of a module, such as `polars`.
        name: Name of a class in it.
    """
    loaded_class = getattr(sys.modules.get(package), name, None)
    return isinstance(loaded_class, type) and isinstance(data, loaded_class)


_QUERIES = {
    "duckdb": "DuckDBPyRelation",
    "ibis": "Table",
    "datafusion": "DataFrame",
}


def query_package(data: Any) -> str | None:
    """Returns the package of a query, which is computed whenever it is read.

    Such objects hand out streams of Arrow, by the method `__arrow_c_stream__`. Others
    with that method may do so only once.

    Args:
        data: Any object.

    Returns:
        "duckdb", "ibis" or "datafusion"; None for what is no query of these.
    """
    for package, name in _QUERIES.items():
        if of_package(data, package, name):
            return package
    return None


def plain_array(data: Any) -> Any:
    """Returns a tensor of torch as an array of NumPy, and anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        return data.detach().cpu().numpy()
    return data
