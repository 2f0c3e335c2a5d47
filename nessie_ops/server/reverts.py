"""The endpoint that undoes a commit, or brings keys back to an older state.  An extension of Nessie's API."""

from __future__ import annotations

from litestar import Response, post

from nessie_ops.errors import BadRequest
from nessie_ops.model import CommitHash, ContentKey, MergeResult, NewCommit, ReferenceSpec
from nessie_ops.server.once import answer
from nessie_ops.server.parameters import Body, Segment, Store
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.requests import ApplyIn, check_keys, read_body, to_new_commit
from nessie_ops.server.specs import get_body_hash, read_target
from nessie_ops.versioning import VersionStore


class RevertIn(ApplyIn, frozen=True, kw_only=True, rename="camel"):
    """Either a commit to undo, or keys and the state (any reference specification) that they shall have again."""

    commit_hash: str | None = None
    keys: tuple[ContentKey, ...] = ()
    source_ref: str | None = None
    allow_deletes: bool = False


@post("/trees/{ref:str}/history/revert", status_code=200, sync_to_thread=True)
def revert(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[bytes]:
    branch, expected = read_target(store, ref, "revert")
    given = read_body(request, body, RevertIn)
    if (given.commit_hash is None) is (not given.keys):
        raise BadRequest("commitHash: give either commitHash, or keys and sourceRef.")
    words = to_new_commit(given.commit_meta, request, given.message) or NewCommit(message="")
    if given.commit_hash is None:
        return answer(lambda: _revert_contents(store, branch, expected, given, words))
    undone = get_body_hash(store, given.commit_hash, "commitHash", "Hash to revert")
    return answer(
        lambda: store.revert(
            branch,
            expected,
            undone,
            meta=words,
            dry_run=given.wants_dry_run,
            conflicts_as_result=given.wants_conflicts,
        )
    )


def _revert_contents(
    store: VersionStore, branch: str, expected: CommitHash, given: RevertIn, words: NewCommit
) -> MergeResult:
    check_keys(given.keys)
    if not given.source_ref:
        raise BadRequest("sourceRef: must be given with keys; it names the state that they shall have again.")
    return store.revert_contents(
        branch,
        expected,
        given.keys,
        store.resolve(ReferenceSpec.parse(given.source_ref, store.default_branch, "sourceRef")).hash,
        allow_deletes=given.allow_deletes,
        meta=words,
        dry_run=given.wants_dry_run,
        conflicts_as_result=given.wants_conflicts,
    )


HANDLERS = [revert]
