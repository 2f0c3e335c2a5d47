"""Contents: what a key points to.  Frozen values that are also the JSON of the Nessie API.

A content without `id` is one that does not exist yet; the version store gives it an id.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Element = Annotated[str, msgspec.Meta(min_length=1, pattern=r"^[^\x00-\x1f\x7f]*(?![\s\S])")]  # $ is also before \n
Location = Annotated[str, msgspec.Meta(min_length=1, pattern=r"\S")]


class ContentType(StrEnum):
    ICEBERG_TABLE = "ICEBERG_TABLE"
    ICEBERG_VIEW = "ICEBERG_VIEW"
    NAMESPACE = "NAMESPACE"
    UDF = "UDF"
    DELTA_LAKE_TABLE = "DELTA_LAKE_TABLE"


class _Content(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", tag_field="type"):
    id: str | UnsetType = UNSET

    @property
    def type(self) -> ContentType:
        return ContentType(str(self.__struct_config__.tag))


class IcebergTable(_Content, frozen=True, kw_only=True, gc=False, tag="ICEBERG_TABLE"):
    """Pointer to a table metadata file and the on-reference state inside it; all -1 or 0 where there is none."""

    metadata_location: Location
    snapshot_id: Int64
    schema_id: Int32
    spec_id: Int32
    sort_order_id: Int32


class IcebergView(_Content, frozen=True, kw_only=True, gc=False, tag="ICEBERG_VIEW"):
    metadata_location: Location
    version_id: Int64
    schema_id: Int32
    sql_text: str | UnsetType = UNSET
    dialect: str | UnsetType = UNSET


class Namespace(_Content, frozen=True, kw_only=True, gc=False, tag="NAMESPACE"):
    elements: Annotated[tuple[Element, ...], msgspec.Meta(max_length=20)]
    properties: dict[str, str] | UnsetType = UNSET


class UDF(_Content, frozen=True, kw_only=True, gc=False, tag="UDF"):
    metadata_location: str | UnsetType = UNSET
    version_id: str | UnsetType = UNSET
    signature_id: str | UnsetType = UNSET
    sql_text: str | UnsetType = UNSET
    dialect: str | UnsetType = UNSET


class DeltaLakeTable(_Content, frozen=True, kw_only=True, gc=False, tag="DELTA_LAKE_TABLE"):
    metadata_location_history: tuple[str, ...]
    checkpoint_location_history: tuple[str, ...]
    last_checkpoint: str | None = None


Content = IcebergTable | IcebergView | Namespace | UDF | DeltaLakeTable

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder: msgspec.json.Decoder[Content] = msgspec.json.Decoder(Content)


def encode_content(content: Content) -> bytes:
    """Canonical JSON: the bytes that are hashed and stored."""
    return _encoder.encode(content)


def decode_content(raw: bytes) -> Content:
    return _decoder.decode(raw)


def tidy(content: Content) -> Content:
    """`content` in the one spelling of "no properties" that is written: without the field."""
    if isinstance(content, Namespace) and content.properties == {}:
        return msgspec.structs.replace(content, properties=UNSET)
    return content


def with_id(content: Content, content_id: str) -> Content:
    """`content` carrying `content_id`."""
    return msgspec.structs.replace(content, id=content_id)


def same_but_id(a: Any, b: Any) -> bool:
    """Whether two contents are equal when their ids are left aside."""
    return bool(msgspec.structs.replace(a, id=UNSET) == msgspec.structs.replace(b, id=UNSET))
