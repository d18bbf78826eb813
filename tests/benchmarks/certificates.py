"""Certificate for loopback, so that measurements use HTTPS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import certifi
import trustme


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of the certificate files."""

    server: Path
    trusted: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Certificates:
        authority = trustme.CA()
        made = cls(folder / "server.pem", folder / "trusted.pem")
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(made.server)
        made.trusted.write_text(Path(certifi.where()).read_text(encoding="ascii", errors="ignore"), encoding="ascii")
        authority.cert_pem.write_to_path(made.trusted, append=True)
        return made
