"""BPF programs that do next to nothing, at a tracepoint: what any program costs there. Needs root."""
import contextlib, ctypes, mmap, os, platform, struct, threading

LIBC = ctypes.CDLL(None, use_errno=True)
# bpf(2), and of enum bpf_cmd, enum bpf_prog_type, enum bpf_func_id.
CALL = {"x86_64": 321, "aarch64": 280}[platform.machine()]
CREATE, LOAD, OPEN = 0, 5, 17
RAW_TRACEPOINT = 17
RING_BUFFER = 27
READ_KERNEL, TIME_SINCE_BOOT, RING_RESERVE, RING_SUBMIT = 113, 125, 131, 132
NO_WAKEUP = 1


def bpf(command, attributes):
    memory = ctypes.create_string_buffer(attributes, 144)
    descriptor = LIBC.syscall(CALL, command, memory, len(memory))
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return descriptor


def instruction(code, value=0, to=0, of=0, offset=0):
    return struct.pack("<BBhi", code, to | of << 4, offset, value)


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


def record(ring, size):
    """So many bytes into a ring of the kernel's: the time, and what lies behind the first argument."""
    move, constant, add, call, store, load = 0xBF, 0xB7, 0x07, 0x85, 0x7B, 0x79
    body = b"".join([
        instruction(move, to=7, of=0),
        instruction(call, TIME_SINCE_BOOT),
        instruction(store, to=7, of=0),
        instruction(move, to=1, of=7), instruction(add, 8, to=1),
        instruction(constant, size - 8, to=2),
        instruction(load, to=3, of=6),
        instruction(call, READ_KERNEL),
        instruction(move, to=1, of=7), instruction(constant, NO_WAKEUP, to=2),
        instruction(call, RING_SUBMIT),
    ])
    is_full = instruction(0x15, to=0, offset=len(body) // 8)
    return b"".join([
        instruction(move, to=6, of=1),
        instruction(0x18, ring, to=1, of=1), instruction(0),
        instruction(constant, size, to=2), instruction(constant, to=3),
        instruction(call, RING_RESERVE), is_full, body, NOTHING,
    ])


@contextlib.contextmanager
def emptied(bytes):
    """A ring of the kernel's whose records are let go of a hundred times a second, unread."""
    ring = bpf(CREATE, struct.pack("<IIII", RING_BUFFER, 0, 0, bytes))
    consumer = mmap.mmap(ring, mmap.PAGESIZE)
    producer = mmap.mmap(ring, mmap.PAGESIZE, prot=mmap.PROT_READ, offset=mmap.PAGESIZE)
    is_over = threading.Event()

    def empty():
        while not is_over.wait(0.01):
            consumer[:8] = producer[:8]

    thread = threading.Thread(target=empty)
    thread.start()
    try:
        yield ring
    finally:
        is_over.set()
        thread.join()
        os.close(ring)
