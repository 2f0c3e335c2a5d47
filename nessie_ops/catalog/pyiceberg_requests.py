"""What PyIceberg's callers give, as requests of the catalog: the very ones that its REST client would send.

Its models of requests check and spell the values, so that both ways mean the same.  Knows no catalog.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel
from pyiceberg.catalog.rest import CreateTableRequest, CreateViewRequest
from pyiceberg.partitioning import PartitionSpec, assign_fresh_partition_spec_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import CommitTableRequest, CreateTableTransaction, Transaction
from pyiceberg.table.sorting import SortOrder, assign_fresh_sort_order_ids
from pyiceberg.table.update import AssertCreate, AssertTableUUID, TableRequirement, TableUpdate
from pyiceberg.typedef import Properties
from pyiceberg.types import transform_dict_value_to_str
from pyiceberg.view.metadata import ViewVersion

from nessie_ops.catalog.requests import Commit, CreateTable, CreateView
from nessie_ops.catalog.tables import Change
from nessie_ops.errors import BadRequest
from nessie_ops.model import ContentKey

T = TypeVar("T")


def to_create_table(
    name: str,
    schema: Schema,
    location: str | None,
    spec: PartitionSpec,
    order: SortOrder,
    properties: Properties,
    *,
    staged: bool,
) -> CreateTable:
    """The request for a new table, with fresh ids; ValueError for a property without value."""
    fresh = assign_fresh_schema_ids(schema)
    fields = {
        "name": name,
        "location": location,
        "schema": fresh,
        "partition-spec": assign_fresh_partition_spec_ids(spec, schema, fresh),
        "write-order": assign_fresh_sort_order_ids(order, schema, fresh),
        "stage-create": staged,
        "properties": properties,
    }
    return _convert(CreateTableRequest, fields, CreateTable)


def to_create_view(
    name: str, schema: Schema, version: ViewVersion, location: str | None, properties: Properties
) -> CreateView:
    """The request for a new view, with fresh ids."""
    fields = {
        "name": name,
        "location": location,
        "schema": assign_fresh_schema_ids(schema),
        "view-version": version,
        "properties": properties,
    }
    return _convert(CreateViewRequest, fields, CreateView)


def to_change(key: ContentKey, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]) -> Change:
    """The change of the table `key`."""
    identifier = {"namespace": list(key.elements[:-1]), "name": key.name}
    fields = {"identifier": identifier, "requirements": requirements, "updates": updates}
    given = _convert(CommitTableRequest, fields, Commit)
    return Change(key, given.requirements, given.updates)


def requirements_of(transaction: Transaction) -> tuple[TableRequirement, ...]:
    """What must hold for `transaction` to be committed.

    PyIceberg 0.12 commits one table at a time: what a transaction would commit is in attributes of its own.
    """
    if isinstance(transaction, CreateTableTransaction):
        return (AssertCreate(),)
    return (*transaction._requirements, AssertTableUUID(uuid=transaction.table_metadata.table_uuid))


def to_texts(properties: Properties) -> dict[str, str]:
    """Properties of a namespace as text; BadRequest for a name that is none, ValueError for one without value."""
    for name in properties:
        if not isinstance(name, str):
            raise BadRequest(f"properties: the name {name!r} is not text.")
    return transform_dict_value_to_str(properties)


def _convert(model: type[BaseModel], fields: dict[str, Any], kind: type[T]) -> T:
    return msgspec.json.decode(model.model_validate(fields).model_dump_json(), type=kind)
