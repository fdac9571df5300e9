"""What a command can inherit or meet: by name, and as what a shell does before it executes it."""
import os
import re

# Standard error of a weigh that nobody reads, and of one whose reader has gone (see `inherited_pipes`).
FULL_PIPE, DEAD_PIPE = 60, 61

# Name, what a shell does before it executes "$@".
SURROUNDINGS = [
    ("plain", ""),
    ("CHLD ignored", "env --ignore-signal=CHLD"),
    ("HUP, INT, QUIT ignored", "env --ignore-signal=HUP,INT,QUIT"),
    ("all signals ignored", "env --ignore-signal"),
    ("CHLD and TERM blocked", "env --block-signal=CHLD,TERM"),
    ("all signals blocked", "env --block-signal"),
    ("standard input closed", "<&-"),
    ("standard output closed", ">&-"),
    ("standard error closed", "2>&-"),
    ("all three closed", "<&- >&- 2>&-"),
    ("standard error full", "2>/dev/full"),
    ("standard output full", ">/dev/full"),
    ("nobody reads standard error", f"2>&{FULL_PIPE}"),
    ("standard error's reader has gone", f"2>&{DEAD_PIPE}"),
    ("files of 40 KiB at most", "ulimit -f 40;"),
    ("no file of any size", "ulimit -f 0;"),
    ("16 descriptors", "ulimit -n 16;"),
    ("10 descriptors", "ulimit -Sn 10;"),
    ("6 descriptors", "ulimit -n 6;"),
    ("no other process", "ulimit -u 0;"),
    ("stack of 128 KiB", "ulimit -s 128;"),
    ("5 seconds of CPU", "ulimit -t 5;"),
    ("1 second of CPU, soft", "ulimit -St 1;"),
    ("no locked memory", "ulimit -l 0;"),
    ("no core", "ulimit -c 0;"),
    ("no pending signals", "ulimit -i 0;"),
    ("no HOME", "env -u HOME"),
    ("HOME is not there", "HOME=/nowhere"),
    ("no PATH", "PATH="),
    ("no environment", "env -i"),
    ("TMPDIR is not there", "TMPDIR=/nowhere"),
    ("TMPDIR is a file", "TMPDIR=/etc/passwd"),
    ("2,000 variables", "env $(for i in $(seq 2000); do echo V$i=0123456789; done)"),
    ("odd language", "LC_ALL=tlh LANG=\\\\"),
    ("umask 0777", "umask 0777;"),
    ("lowest priority", "nice -n 19"),
    ("idle scheduling", "chrt --idle 0"),
    ("in a deleted folder", 'mkdir gone; cd gone; rmdir "$PWD";'),
    ("a session of its own", "setsid --wait"),
    ("one CPU", "taskset -c 0"),
    ("no new privileges", "setpriv --no-new-privs"),
    ("killed first when memory is short", "choom -n 1000 --"),
]


def script(prelude):
    """A prelude that ends with `;` is commands; others stand before or behind what is executed."""
    if prelude.endswith(";"):
        return f'{prelude} exec "$@"'
    if re.match(r"[0-9]*[<>]", prelude):
        return f'exec "$@" {prelude}'
    if re.match(r"\w+=", prelude):
        return f'{prelude} exec "$@"'
    return f'exec {prelude} "$@"'


def inherited_pipes():
    """Puts the write ends of a pipe that is full and of one whose reader has gone where runs inherit them."""
    full_reader, full = os.pipe()
    os.set_blocking(full, False)
    try:
        while True:
            os.write(full, bytes(4096))
    except BlockingIOError:
        os.set_blocking(full, True)
    dead_reader, dead = os.pipe()
    os.close(dead_reader)
    os.dup2(full, FULL_PIPE)
    os.dup2(dead, DEAD_PIPE)
    return full_reader
