"""Credentials for one grant, valid for an hour, by STS.

They are given to clients and kept in memory for the next one who gets the same grant; nothing here logs them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from nessie_ops.catalog.grants import Grant, session_policy
from nessie_ops.catalog.stores import ATTEMPTS, CONNECT_TIMEOUT_S, READ_TIMEOUT_S, S3
from nessie_ops.errors import BadRequest, StoreUnavailable

LIFETIME_S = 3600  # the most that AWS gives to one who is in a role already
KEPT = 1000  # grants: as many tables as a busy catalog loads in half an hour
MAX_POLICY = 2048  # characters


class Credentials(NamedTuple):
    """Keys of S3 and the time, in milliseconds since 1970, when they end."""

    key: str
    secret: str
    token: str
    expires_at_ms: int

    def __repr__(self) -> str:
        """Without a secret, for whoever logs it."""
        return f"Credentials({self.key})"


class Vendor:
    """Asks STS to assume the role of the settings, with a policy that narrows it to a grant."""

    def __init__(self, s3: S3, clock_s: Callable[[], float] = time.time) -> None:
        self._s3 = s3
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._sts: Any = None
        self._assume = lru_cache(maxsize=KEPT)(self._ask)

    def vend(self, grant: Grant) -> Credentials:
        """Credentials that are good for half of their lifetime at least; StoreUnavailable when STS gives none."""
        policy = session_policy(grant, partition=self._s3.role_arn.split(":")[1])
        if len(policy) > MAX_POLICY:
            raise BadRequest("location: the table's locations are too long for a policy of AWS; shorten them.")
        return self._assume(policy, int(self._clock_s() // (LIFETIME_S / 2)))

    def _ask(self, policy: str, _half_of_lifetime: int) -> Credentials:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = self._client().assume_role(
                RoleArn=self._s3.role_arn, RoleSessionName="nessie-ops", Policy=policy, DurationSeconds=LIFETIME_S
            )
        except (BotoCoreError, ClientError) as error:
            raise StoreUnavailable(f"STS gives no credentials for {self._s3.role_arn}: {str(error)[:300]}") from error
        found = answer["Credentials"]
        ends: datetime = found["Expiration"]
        return Credentials(
            found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"], int(ends.timestamp() * 1000)
        )

    def _client(self) -> Any:
        import botocore.session  # here, since most processes need none
        from botocore.config import Config

        with self._lock:  # sessions may not be shared, clients may
            if self._sts is None:
                self._sts = botocore.session.get_session().create_client(
                    "sts",
                    endpoint_url=self._s3.sts_endpoint or self._s3.endpoint or None,
                    region_name=self._s3.region or None,
                    config=Config(
                        connect_timeout=CONNECT_TIMEOUT_S,
                        read_timeout=READ_TIMEOUT_S,
                        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                    ),
                )
            return self._sts
