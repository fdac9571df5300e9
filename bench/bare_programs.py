"""BPF programs that do next to nothing, at a tracepoint: what any program costs there. Needs root."""
import contextlib, ctypes, os, platform, struct

LIBC = ctypes.CDLL(None, use_errno=True)
# bpf(2), and of enum bpf_cmd, enum bpf_prog_type, enum bpf_func_id.
CALL = {"x86_64": 321, "aarch64": 280}[platform.machine()]
LOAD, OPEN = 5, 17
RAW_TRACEPOINT = 17
TIME_SINCE_BOOT = 125


def bpf(command, attributes):
    memory = ctypes.create_string_buffer(attributes, 144)
    descriptor = LIBC.syscall(CALL, command, memory, len(memory))
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return descriptor


def instruction(code, value=0):
    return struct.pack("<BBhi", code, 0, 0, value)


# r0 = 0; exit
NOTHING = instruction(0xB7) + instruction(0x95)
CLOCK = instruction(0x85, TIME_SINCE_BOOT) + NOTHING


def load(code):
    memory, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    return bpf(LOAD, struct.pack(
        "<IIQQ", RAW_TRACEPOINT, len(code) // 8, ctypes.addressof(memory), ctypes.addressof(licence)))


@contextlib.contextmanager
def attached(tracepoints, code=NOTHING):
    """A program of its own at each of these, by their names."""
    with contextlib.ExitStack() as open_ones:
        for tracepoint in tracepoints:
            program = load(code)
            open_ones.callback(os.close, program)
            name = ctypes.create_string_buffer(tracepoint.encode())
            link = bpf(OPEN, struct.pack("<QI", ctypes.addressof(name), program))
            open_ones.callback(os.close, link)
        yield
