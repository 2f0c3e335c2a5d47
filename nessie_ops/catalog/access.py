"""Access to the files of tables for clients that have no keys of their own: vended credentials and signed requests.

Both are off until the administrator turns them on: a role for credentials, a switch for signatures.
"""

from __future__ import annotations

from nessie_ops.catalog.grants import Grant, grant_of, grant_unborn
from nessie_ops.catalog.lake import Lake
from nessie_ops.catalog.outlines import check_table
from nessie_ops.catalog.signing import Effect, Signed, Signer, SignRequest, check_effect, effect_of
from nessie_ops.catalog.stores import S3
from nessie_ops.catalog.vending import Credentials, Vendor
from nessie_ops.errors import BadRequest, Forbidden
from nessie_ops.model import Branch, ContentKey, ContentType, IcebergTable, ReferenceSpec


class Access:
    """Grants access to the files of tables on S3; to others it grants none."""

    def __init__(self, lake: Lake, s3: S3) -> None:
        self._lake = lake
        self._s3 = s3
        self._vendor = Vendor(s3)
        self._signer = Signer()
        is_s3 = any(root.startswith("s3://") for root in lake.files.warehouse.roots)
        self.vends = is_s3 and bool(s3.role_arn)
        self.signs = is_s3 and s3.remote_signing

    def grant(self, ref: str, metadata: bytes) -> Grant:
        """What a client may do with the files of a table loaded at `ref`: on a branch also write."""
        return grant_of(metadata, self._lake.files.warehouse, may_write=self._is_branch(ref))

    def vend(self, grant: Grant) -> Credentials:
        """Credentials for `grant`, which names a location; the caller has seen that this vends.  StoreUnavailable."""
        return self._vendor.vend(grant)

    def sign(self, ref: str, key: ContentKey, request: SignRequest) -> Signed:
        """`request` signed, if it reads, lists or adds files of the table `key` at `ref`.

        Also of a table that is being created at a location of its own.  BadRequest, Forbidden, StoreUnavailable.
        """
        if not self.signs:
            raise BadRequest("This server signs no requests; start it with NESSIE_OPS_S3_REMOTE_SIGNING=true.")
        effect = effect_of(request, self._s3)
        check_effect(effect, self._grant_for(ref, key, effect))
        return self._signer.sign(request)

    def _grant_for(self, ref: str, key: ContentKey, effect: Effect) -> Grant:
        at = self._lake.resolve(ref)
        content = self._lake.get(at, key)
        if isinstance(content, IcebergTable):
            return self.grant(ref, self._lake.files.read(content.metadata_location, check_table))
        unborn = grant_unborn(self._default_location(ref, key), effect.location)
        if unborn is None:
            raise Forbidden(f"uri: the table {key} does not exist, and this is not where it would be created.")
        return unborn

    def _default_location(self, ref: str, key: ContentKey) -> str:
        at = self._lake.get_branch(ref).hash
        namespaces = self._lake.get_free_place(at, key, ContentType.ICEBERG_TABLE)
        return self._lake.default_location(namespaces, key)

    def _is_branch(self, ref: str) -> bool:
        spec = ReferenceSpec.parse(ref, self._lake.store.default_branch)
        if spec.name is None or spec.hash or spec.steps:
            return False
        return isinstance(self._lake.store.get_reference(spec.name), Branch)
