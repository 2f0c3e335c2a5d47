"""What merges and transplants do with each key.

`merge_key` is the whole decision for one key, a pure function over (base, source, target).  `decide` takes it for
all keys that a source changed, and sees to it that no content id gets under two keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    Conflict,
    ConflictType,
    Content,
    ContentKey,
    ContentType,
    KeyDetails,
    KeyMergeMode,
    MergeBehavior,
    parse_content_id,
    with_id,
)
from nessie_ops.versioning import tree
from nessie_ops.versioning.codec import Change, Leaf, leaf_of, type_of
from nessie_ops.versioning.conflicts import compare_leaves
from nessie_ops.versioning.objects import StoredNodes

Difference = tuple[bytes, bytes | None, bytes | None]
"""(key bytes, leaf before, leaf after), as `tree.diff` gives them."""


class Values(NamedTuple):
    """A key's encoded leaves in the three trees; None where it does not exist."""

    base: bytes | None
    source: bytes | None
    target: bytes | None


class Decision(NamedTuple):
    """What happens to a key: a new value (None deletes) or nothing, and the conflict that forbids it."""

    conflict: Conflict | None = None
    is_change: bool = False
    value: bytes | None = None
    is_silent: bool = False  # not worth a row in the result's details


Decided = tuple[bytes, KeyMergeMode, Decision]
"""(key bytes, how the key is merged, what happens to it)."""


class Plan(NamedTuple):
    """What happens to the target: changes, a row per key, and the values at the target of all keys concerned."""

    changes: list[Change]
    details: tuple[KeyDetails, ...]
    at_head: Mapping[bytes, bytes]

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        return tuple(row.conflict for row in self.details if row.conflict)

    @property
    def created(self) -> list[bytes]:
        """Keys new to the target."""
        return [key for key, leaf in self.changes if leaf and key not in self.at_head]


def merge_key(key: ContentKey, values: Values, mode: KeyMergeMode) -> Decision:
    """Decide one key that the source changed.

    Equal additions are dropped.  A namespace that both sides created is the source's.  Else the target
    must still have the base's value (or the value that the mode expects); FORCE does not ask.
    """
    base, source, target = values
    if mode.merge_behavior == MergeBehavior.DROP:
        return Decision()
    value = _leaf(mode.resolved_content) if mode.resolved_content else source
    expected = _leaf(mode.expected_target_content) if mode.expected_target_content else base
    conflict = None
    if mode.expected_target_content or mode.merge_behavior == MergeBehavior.NORMAL:
        if base is None and mode.expected_target_content is None and target is not None:
            if source == target:
                return Decision(is_silent=True)
            if _is_namespace(source) and _is_namespace(target):
                return Decision(None, True, source, is_silent=True)
        if expected is None and target is None and source is None:
            return Decision()
        conflict = compare_leaves(key, target, expected)
    return Decision(conflict, value != target, value)


def get_modes(given: Iterable[KeyMergeMode]) -> dict[ContentKey, KeyMergeMode]:
    """Merge modes by key; BadRequest when they contradict themselves."""
    modes: dict[ContentKey, KeyMergeMode] = {}
    for mode in given:
        key = mode.key.validated()
        if key in modes:
            raise BadRequest(f"keyMergeModes: key '{key}' occurs twice.")
        modes[key] = mode
        if mode.resolved_content is None:
            continue
        if mode.expected_target_content is None:
            raise BadRequest(f"keyMergeModes: key '{key}' has resolvedContent, which needs expectedTargetContent.")
        if mode.merge_behavior != MergeBehavior.NORMAL:
            raise BadRequest(f"keyMergeModes: resolvedContent of key '{key}' needs the merge behavior NORMAL.")
    for mode in modes.values():
        for content in (mode.expected_target_content, mode.resolved_content):
            if content is not None and not content.id:
                raise BadRequest(f"keyMergeModes: the content of key '{mode.key}' has no content ID.")
    return modes


def get_resolved(modes: Iterable[KeyMergeMode]) -> dict[bytes, Content]:
    """The contents that the modes bring along, by leaf; they are not stored yet."""
    contents = [_canonical(mode.resolved_content) for mode in modes if mode.resolved_content]
    return {leaf_of(content)[0]: content for content in contents}


def decide(
    nodes: StoredNodes,
    differing: Sequence[Difference],
    head_root: bytes,
    modes: Mapping[ContentKey, KeyMergeMode],
    default: MergeBehavior,
    elsewhere: Callable[[], Iterable[tuple[bytes, bytes | None]]],
) -> Plan:
    """Decide all keys that a source changed.  In conflict, too, a change is the source's, as if it were forced.

    `elsewhere`: values at the target of the keys where a content id of the source may be as well; see `get_nearby`.
    """
    at_head = tree.get_many(nodes, head_root, (key for key, _, _ in differing))
    decided: list[Decided] = []
    for raw, before, after in differing:
        key = ContentKey.from_bytes(raw)
        mode = modes.get(key) or KeyMergeMode(key=key, merge_behavior=default)
        values = Values(before, after, at_head.get(raw))
        _check_resolved(mode, values)
        decided.append((raw, mode, merge_key(key, values, mode)))
    return make_plan(decided, at_head, elsewhere)


def make_plan(
    decided: Sequence[Decided],
    at_head: Mapping[bytes, bytes],
    elsewhere: Callable[[], Iterable[tuple[bytes, bytes | None]]],
) -> Plan:
    """The plan of all that is decided, with a conflict for a content id that would get under two keys."""
    changes = [(raw, decision.value) for raw, _, decision in decided if decision.is_change]
    shared = _get_id_conflicts(changes, at_head, elsewhere)
    details = [
        KeyDetails(mode.key, mode.merge_behavior, decision.conflict or shared.get(raw))
        for raw, mode, decision in decided
        if raw in shared or not decision.is_silent
    ]
    return Plan(changes, tuple(details), at_head)


def get_nearby(
    nodes: StoredNodes, base_root: bytes, source_root: bytes, head_root: bytes
) -> Iterable[tuple[bytes, bytes | None]]:
    """Values at the head of all keys that can have a content id of the source under another name.

    A key outside both differences has one value in all three trees, so its content id has no other key in the
    source.  Any tree will do as base; one close to both is cheap.
    """
    keys = [key for key, _, _ in tree.diff(nodes, base_root, source_root)]
    moved = ((key, after) for key, _, after in tree.diff(nodes, base_root, head_root))
    return chain(tree.get_many(nodes, head_root, keys).items(), moved)


def _get_id_conflicts(
    changes: Sequence[Change],
    at_head: Mapping[bytes, bytes],
    elsewhere: Callable[[], Iterable[tuple[bytes, bytes | None]]],
) -> dict[bytes, Conflict]:
    """Conflicts of the keys that would get a content id that another key has."""
    arriving = {key: _id(leaf) for key, leaf in changes if leaf and _id(leaf) != _id(at_head.get(key))}
    if not arriving:
        return {}
    edited = {key for key, _ in changes}
    kept = [(key, leaf) for key, leaf in changes if key not in arriving]
    others = ((key, leaf) for key, leaf in chain(at_head.items(), elsewhere()) if key not in edited)
    owners = {_id(leaf): key for key, leaf in chain(kept, others) if leaf}
    conflicts = {}
    for key, content_id in sorted(arriving.items()):
        owner = owners.setdefault(content_id, key)
        if owner != key:
            name, other = ContentKey.from_bytes(key), ContentKey.from_bytes(owner)
            text = f"content of key '{name}' is at key '{other}' of the target; take both keys from one side"
            conflicts[key] = Conflict(ConflictType.KEY_CONFLICT, name, text)
    return conflicts


def _check_resolved(mode: KeyMergeMode, values: Values) -> None:
    """BadRequest when resolved content is of a type, or has an id, that the key has on neither side."""
    if mode.resolved_content is None:
        return
    leaves = [Leaf.decode(leaf) for leaf in (values.source, values.target) if leaf]
    types = {leaf.type for leaf in leaves}
    if mode.resolved_content.type not in types:
        raise BadRequest(
            f"keyMergeModes: resolvedContent of key '{mode.key}' is a {mode.resolved_content.type}, "
            f"but the key holds a {' or '.join(sorted(types))}."
        )
    if parse_content_id(str(mode.resolved_content.id)) not in {leaf.content_id for leaf in leaves}:
        raise BadRequest(
            f"keyMergeModes: resolvedContent of key '{mode.key}' has a content ID that the key has on neither side."
        )


def _id(leaf: bytes | None) -> bytes | None:
    return leaf and leaf[1:17]


def _canonical(content: Content) -> Content:
    return with_id(content, parse_content_id(str(content.id)))


def _leaf(content: Content) -> bytes:
    return leaf_of(_canonical(content))[0]


def _is_namespace(leaf: bytes | None) -> bool:
    return leaf is not None and type_of(leaf) == ContentType.NAMESPACE
