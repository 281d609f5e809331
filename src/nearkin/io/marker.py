"""The marker of a run folder: one JSON file that says whose folder it is and what it keeps."""

import json
import secrets
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1
NAME = "nearkin-folder.json"


@dataclass
class Marker:
    """Identity of a run folder, and the record of its files that cannot carry that identity."""

    id: str = field(default_factory=lambda: secrets.token_hex(16))
    seed: int = field(default_factory=lambda: secrets.randbits(31))
    purposes: dict[str, str] = field(default_factory=dict)  # by section
    inputs: dict[str, dict[str, str]] = field(default_factory=dict)  # by section
    files: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # versions, oldest first
    format: int = FORMAT

    def encode(self) -> bytes:
        """As JSON, with a checksum."""
        content = asdict(self)
        return json.dumps(content | {"crc32": _checksum(content)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes, folder: object) -> "Marker":
        """The marker that `encode` wrote."""
        try:
            content = dict(json.loads(data))
            checksum = content.pop("crc32")
            newer = int(content["format"]) > FORMAT
            marker = cls() if newer else cls(**content)
            damaged = not newer and not (checksum == _checksum(content) and marker._is_whole())
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            newer, damaged = False, True
        if damaged:
            raise ValueError(
                f"{NAME} in folder={str(folder)!r} is damaged, so it is not known what in that "
                "folder belongs to nearkin; restore the file from a copy, or give another folder"
            )
        if newer:
            raise ValueError(
                f"folder={str(folder)!r} has format {content['format']}, this version of nearkin "
                f"reads format {FORMAT}; use the version that began it, or give another folder"
            )
        return marker

    def _is_whole(self) -> bool:
        """Whether everything is of the type that it is used as."""
        texts = [self.id, *self.purposes.values(), *self.files, *self.inputs, *self.purposes]
        inputs = [text for made_from in self.inputs.values() for text in made_from.values()]
        versions = [version for known in self.files.values() for version in known]
        return (
            all(isinstance(number, int) for number in [self.seed])
            and all(isinstance(text, str) for text in [*texts, *inputs])
            and all({"sha256", "inputs", "confirmed"} <= version.keys() for version in versions)
        )


def _checksum(content: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"
