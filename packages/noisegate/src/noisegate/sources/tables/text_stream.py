"""The text of a file in UTF-8, whatever its encoding, and unpacked on the way.

::

    records.csv.gz ──► unpack ──► decode ──► UTF-8, as `csv_file` reads it
    (on disk)          (in memory, a megabyte at a time)

Nothing is written to disk. A file is opened again in every round.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Literal, TypeAlias, cast

from noisegate.errors import DataError
from noisegate.schema.file_form import UTF_8
from noisegate.sources.stores import open_file, read_status

Packing: TypeAlias = Literal["", "gzip", "zip"]
"""How a file is packed: not at all, or as an archive of one file."""

_CHUNK_BYTES = 1 << 20

# What the libraries raise for archives that are cut off, changed or encrypted.
_ARCHIVE_ERRORS = (
    EOFError,
    zlib.error,
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
)


class RecordProblem(Exception):  # noqa: N818 - its caller makes an error of it
    """Bytes that are not whole records.

    Attributes:
        offset: The byte of the text at which something is wrong.
        reason: What is wrong and its cure, in words that quote nothing.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason


def read_text_of(
    file: BinaryIO, path: Path, *, packing: Packing = "", encoding: str = UTF_8
) -> BinaryIO:
    """Returns the text of a file as UTF-8.

    Args:
        file: The file, opened; closing what is returned closes it.
        path: Its path, for messages.
        packing: How it is packed.
        encoding: In which its text is encoded.

    Returns:
        The file itself if it is unpacked and in UTF-8; else a `TextStream`.

    Raises:
        DataError: if an archive holds no file, or several.
    """
    if not packing and encoding == UTF_8:
        return file
    return cast("BinaryIO", TextStream(file, path, packing, encoding))


def estimate_line_count(stream: BinaryIO, path: Path) -> int:
    """Estimates the number of lines of a file by their length at its start.

    Args:
        stream: The text of the file, from its start.
        path: The file.
    """
    first_bytes = stream.read(_CHUNK_BYTES)
    # Of a packed file, as many bytes as these took.
    file_bytes = getattr(stream, "file_position", len(first_bytes))
    line_count = first_bytes.count(b"\n")
    return read_status(path).size * line_count // max(1, file_bytes)


class TextStream(io.RawIOBase):
    """Reads the text of a file forwards: unpacks it, and encodes it as UTF-8.

    Its `tell` counts bytes of UTF-8, and it cannot be moved by `seek`. Reading raises a
    `RecordProblem` where the file is damaged or in another encoding.
    """

    def __init__(
        self, file: BinaryIO, path: Path, packing: Packing, encoding: str
    ) -> None:
        """Begins to read a file; see `read_text_of`."""
        super().__init__()
        self._file = file
        try:
            self._unpacked = _unpack(path, file, packing)
        except BaseException:
            file.close()
            raise
        self._encoding = encoding
        self._decoder: Any = None
        if encoding != UTF_8:
            self._decoder = codecs.getincrementaldecoder(encoding)()
        # Text that waits to be read, where reading continues in it, and how many bytes
        # were read before it.
        self._buffer = b""
        self._position_in_buffer = 0
        self._buffer_start = 0
        self._has_ended = False
        self._problem: str | None = None

    def readable(self) -> bool:
        """Returns True."""
        return True

    def tell(self) -> int:
        """Returns how many bytes of UTF-8 were read."""
        return self._buffer_start + self._position_in_buffer

    @property
    def file_position(self) -> int:
        """How many bytes of the file, packed as it is, were read so far."""
        return self._file.tell()

    def readinto(self, target: Any) -> int:
        """Reads some bytes into a buffer; returns how many, 0 at the end.

        Raises:
            RecordProblem: if the file is damaged, or its text is in another encoding.
        """
        while self._position_in_buffer == len(self._buffer):
            if self._problem is not None:
                raise RecordProblem(self.tell(), self._problem)
            if self._has_ended:
                return 0
            self._fill_buffer()
        stop = self._position_in_buffer + len(target)
        content = self._buffer[self._position_in_buffer : stop]
        target[: len(content)] = content
        self._position_in_buffer += len(content)
        return len(content)

    def unread(self, content: bytes) -> None:
        """Puts back what was read last, to be read again."""
        self._buffer_start = self.tell() - len(content)
        self._buffer = content + self._buffer[self._position_in_buffer :]
        self._position_in_buffer = 0

    def _fill_buffer(self) -> None:
        """Reads on in the file; a problem is remembered behind the text before it."""
        self._buffer_start += len(self._buffer)
        self._position_in_buffer = 0
        self._buffer = b""
        try:
            content = self._unpacked.read(_CHUNK_BYTES)
        except _ARCHIVE_ERRORS:
            self._problem = (
                "the archive is encrypted, damaged or cut off; copy it again, or "
                "unpack it"
            )
            return
        self._has_ended = not content
        if self._decoder is None:
            self._buffer = content
            return
        try:
            text = self._decoder.decode(content, final=self._has_ended)
        except UnicodeError as error:
            # What stands before the wrong byte; the decoder may have held some back,
            # so that positions are those of what it saw.
            text = ""
            if isinstance(error, UnicodeDecodeError):
                right_bytes = error.object[: error.start]
                text = right_bytes.decode(self._encoding, errors="ignore")
            self._problem = (
                f"the text is not {self._encoding}, which [file] in the schema states; "
                "correct the encoding there"
            )
        # Half of a pair in UTF-16 is no text; it becomes a question mark.
        self._buffer = text.encode(errors="replace")

    def close(self) -> None:
        """Closes the file."""
        if not self.closed:
            self._unpacked.close()
            self._file.close()
        super().close()


def _unpack(path: Path, file: BinaryIO, packing: Packing) -> IO[bytes]:
    """Returns the content of an archive, or the file itself if it is none.

    Raises:
        DataError: for a ZIP archive without a table, or with several.
    """
    if packing == "gzip":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    if packing == "zip":
        archive = _open_zip(path, file)
        try:
            return archive.open(name_in_archive(path, archive))
        except _ARCHIVE_ERRORS:
            pass
        raise _unreadable_archive(path)
    return file


def _open_zip(path: Path, file: BinaryIO) -> zipfile.ZipFile:
    """Opens a ZIP archive, whose list of files stands at its end."""
    try:
        return zipfile.ZipFile(file)
    except _ARCHIVE_ERRORS:
        pass
    raise _unreadable_archive(path)


def _unreadable_archive(path: Path) -> DataError:
    """Returns the error of an archive that cannot be unpacked."""
    return DataError(
        f"{path.name}: the archive is encrypted, damaged or cut off; copy it again, or "
        "unpack it"
    )


def name_in_archive(path: Path, archive: zipfile.ZipFile) -> str:
    """Returns the name of the only table in a ZIP archive.

    Args:
        path: The archive, for messages.
        archive: The archive, opened.

    Raises:
        DataError: if it holds none, or several.
    """
    # Folders, and what a Mac adds, are no tables.
    names = [
        entry.filename
        for entry in archive.infolist()
        if not entry.is_dir()
        and not entry.filename.startswith("__MACOSX/")
        and not PurePosixPath(entry.filename).name.startswith(".")
    ]
    if len(names) != 1:
        number = "no file" if not names else f"{len(names)} files"
        raise DataError(
            f"{path.name}: the archive holds {number}; expected one table: unpack it, "
            "and give the path of the table"
        )
    return names[0]


def name_of_only_file(path: Path) -> str:
    """Returns the name of the only file in a ZIP archive, as `name_in_archive` does.

    Raises:
        OSError: if the archive cannot be opened.
    """
    with open_file(path) as file, _open_zip(path, file) as archive:
        return name_in_archive(path, archive)
