"""A reader of TensorBoard's event files for tests: TFRecords with masked CRC32C, and the few messages in use."""
import os, struct

def crc32c(data):
    rest = 0xffffffff
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82f63b78 if rest & 1 else 0)
    return rest ^ 0xffffffff

def masked(data):
    crc = crc32c(data)
    return (crc >> 15 | crc << 17) + 0xa282ead8 & 0xffffffff

def records(data):
    while data:
        length, crc = struct.unpack("<QI", data[:12])
        assert crc == masked(data[:8])
        body, end = data[12:12 + length], data[12 + length:16 + length]
        assert struct.unpack("<I", end)[0] == masked(body)
        yield body
        data = data[16 + length:]

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at

def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = 8 if kind == 1 else 4
            value, at = struct.unpack("<d" if kind == 1 else "<f", data[at:at + size])[0], at + size
        yield tag >> 3, value

def events(path, key=None):
    """Returns the steps of files, by name unless key is given, and their scalars; a restart drops later steps."""
    steps = {}
    for file in sorted(os.listdir(path), key=key):
        for number, record in enumerate(records(open(os.path.join(path, file), "rb").read())):
            event = dict(fields(record))
            if number == 0:
                assert event[3] == b"brain.Event:2"
            elif 7 in event:
                assert dict(fields(event[7])) == {1: 1}
                steps = {step: scalars for step, scalars in steps.items() if step < event[2]}
            else:
                values = [dict(fields(value)) for kind, value in fields(event[5]) if kind == 1]
                steps.setdefault(event[2], {}).update((value[1].decode(), value[2]) for value in values)
    return steps
