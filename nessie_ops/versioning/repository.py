"""Configuration of the repository: one setting per type."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from nessie_ops.model import CONFIG_TYPES, RepositoryConfig
from nessie_ops.store import Transaction, WriteTransaction

_PREFIX = "config/"  # of the names of settings
_decoder = msgspec.json.Decoder(RepositoryConfig)


def list_configs(tx: Transaction, types: Iterable[str]) -> list[RepositoryConfig]:
    found = [tx.get_setting(_PREFIX + type) for type in CONFIG_TYPES if type in set(types)]
    return [_decoder.decode(text) for text in found if text is not None]


def update_config(tx: WriteTransaction, config: RepositoryConfig) -> RepositoryConfig | None:
    type = str(config.__struct_config__.tag)
    previous = list_configs(tx, [type])
    tx.put_setting(_PREFIX + type, msgspec.json.encode(config.validated()).decode())
    return previous[0] if previous else None
