"""Writes the golden values with the protobuf runtime of Python.

    parity.py SCHEMA GOLDEN OUT

SCHEMA is a FileDescriptorSet of the schema, GOLDEN a version folder such as golden/v1,
OUT a folder for NAME.binpb: the value of NAME.txtpb, its unknown fields included,
serialized deterministically. Each NAME.binpb of GOLDEN is read too and compared with the
text, as a value and, encoded again, as bytes. Exit status 1 if any differs.

No generated code is needed: the types are built from SCHEMA.
"""

import pathlib
import re
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

MESSAGE = re.compile(r"# proto-message: ([A-Za-z0-9_.]+)")
UNKNOWN = re.compile(r"# unknown(?: ([a-z0-9_.\[\]]+))?: ([0-9a-f]+)")
STEP = re.compile(r"([a-z0-9_]+)(?:\[([0-9]+)\])?")


def read_types(schema):
    files = descriptor_pb2.FileDescriptorSet.FromString(schema.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def message_at(message, path):
    for step in filter(None, (path or "").split(".")):
        name, index = STEP.fullmatch(step).groups()
        message = getattr(message, name)
        if index is not None:
            message = message[int(index)]
    return message


def read_value(text, types):
    value = types(MESSAGE.match(text).group(1))()
    text_format.Parse(text, value)
    for line in text.splitlines():
        if line.startswith("# unknown"):
            path, digits = UNKNOWN.fullmatch(line).groups()
            # Bytes of which the type knows nothing are added to its unknown fields.
            message_at(value, path).MergeFromString(bytes.fromhex(digits))
    return value


def main():
    schema, golden, out = map(pathlib.Path, sys.argv[1:])
    types = read_types(schema)
    out.mkdir(parents=True, exist_ok=True)
    texts, faults = sorted(golden.glob("*.txtpb")), []
    for file in texts:
        value = read_value(file.read_text(encoding="utf-8"), types)
        encoded = value.SerializeToString(deterministic=True)
        (out / file.with_suffix(".binpb").name).write_bytes(encoded)
        read = type(value).FromString(file.with_suffix(".binpb").read_bytes())
        if read != value:
            faults.append(f"{file.stem}: its bytes have another value than its text")
        if read.SerializeToString(deterministic=True) != encoded:
            faults.append(f"{file.stem}: its bytes, encoded again, are not the encoding of its text")
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"python: {len(texts)} values, {len(faults)} faults")
    sys.exit(1 if faults or not texts else 0)


if __name__ == "__main__":
    main()
