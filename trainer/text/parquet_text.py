"""Writes a Parquet file as text to standard output: PATH jsonl, or PATH DELIMITER for a table.

Columns that the text cannot hold are left out: bytes, and in a table also lists and structs. The
last line of standard error says what is wrong with the file.
"""

import json
import math
import sys

try:
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet
    from pyarrow import types
except ImportError as error:
    sys.exit(f"{sys.executable} cannot read it ({error})")


def is_taken(kind, form):
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return False
    return form == "jsonl" or not types.is_nested(kind)


def plain(field):
    kind = field.type
    return field.with_type(kind.value_type) if types.is_dictionary(kind) else field


ENCODER = json.JSONEncoder(ensure_ascii=False, default=str, allow_nan=False)


def finite(value):
    """The value with null in place of NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_line(row):
    try:
        text = ENCODER.encode(row)
    except ValueError:
        text = ENCODER.encode(finite(row))
    return text.encode() + b"\n"


def main(path, form):
    file = pyarrow.parquet.ParquetFile(path)
    fields = [field for field in file.schema_arrow if is_taken(field.type, form)]
    schema = pyarrow.schema([plain(field) for field in fields])
    tables = (pyarrow.Table.from_batches([batch]).cast(schema)
              for batch in file.iter_batches(4096, columns=schema.names))
    if form != "jsonl":
        how = pyarrow.csv.WriteOptions(delimiter=form)
        with pyarrow.csv.CSVWriter(sys.stdout.buffer, schema, write_options=how) as writer:
            for table in tables:
                writer.write_table(table)
        return
    for table in tables:
        sys.stdout.buffer.writelines(map(json_line, table.to_pylist()))
    sys.stdout.flush()


try:
    main(*sys.argv[1:])
except BrokenPipeError:
    sys.exit(1)  # the reader has ended
except Exception as error:  # pylint: disable=broad-except
    sys.exit(f"pyarrow says: {' '.join(str(error).split())}")
