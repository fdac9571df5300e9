/* damage PID NUMBER SIZE
 *
 * Writes SIZE in place of the size of a record in the first ring of a `weigh trace` that has PID: of the record of that
 * NUMBER, which lies there unread; the first is 0. Only programs in the kernel can write there, so one does it. The stream
 * has to be stopped meanwhile. Needs root.
 *
 * How rings lie: libweigh/src/ring.h.
 *
 * Truth: records (that lie in the ring), before (what the size was). */
#include "common.h"

#include <dirent.h>
#include <linux/bpf.h>

#include "ring.h"

static int bpf(int command, union bpf_attr *attributes)
{
	int result = syscall(SYS_bpf, command, attributes, sizeof *attributes);

	if (result < 0)
		die("bpf(2), command %d", command);
	return result;
}

/* The map of a descriptor of that process; 0: it is of none. */
static uint32_t map_of(uint64_t pid, const char *descriptor)
{
	char path[320], line[256];
	unsigned id = 0;

	snprintf(path, sizeof path, "/proc/%llu/fdinfo/%s", (unsigned long long)pid, descriptor);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "map_id: %u", &id) == 1)
			break;
	if (file)
		fclose(file);
	return id;
}

/* The array of rings that the process has open. */
static int open_rings(uint64_t pid, struct bpf_map_info *found)
{
	char path[64];
	struct dirent *entry;

	snprintf(path, sizeof path, "/proc/%llu/fdinfo", (unsigned long long)pid);
	DIR *folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		uint32_t id = map_of(pid, entry->d_name);
		if (!id)
			continue;
		int map = bpf(BPF_MAP_GET_FD_BY_ID, &(union bpf_attr){ .map_id = id });
		*found = (struct bpf_map_info){ 0 };
		bpf(BPF_OBJ_GET_INFO_BY_FD, &(union bpf_attr){ .info = {
			.bpf_fd = map, .info_len = sizeof *found, .info = (uintptr_t)found } });
		if (!strcmp(found->name, "weigh_rings"))
			return map;
		close(map);
	}
	errno = 0;
	die("process %llu has no rings", (unsigned long long)pid);
}

/* A program that writes a word of the first element of an array, once. */
static void write_word(int array, uint32_t offset, uint32_t value)
{
	struct bpf_insn code[] = {
		{ .code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10, .off = -4 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 2, .src_reg = BPF_REG_10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = -4 },
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = array },
		{ 0 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem },
		{ .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = 0, .off = 2 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 0, .imm = (int)offset },
		{ .code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = 0, .imm = (int)value },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	static char packet[64];
	int program = bpf(BPF_PROG_LOAD, &(union bpf_attr){
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insns = (uintptr_t)code,
		.insn_cnt = sizeof code / sizeof *code, .license = (uintptr_t)"GPL" });
	bpf(BPF_PROG_TEST_RUN, &(union bpf_attr){ .test = {
		.prog_fd = (uint32_t)program, .data_in = (uintptr_t)packet, .data_size_in = sizeof packet, .repeat = 1 } });
}

int main(int argc, char **argv)
{
	if (argc != 4)
		die("usage: damage PID NUMBER SIZE");
	uint64_t pid = number(argv[1], "PID"), wanted = number(argv[2], "NUMBER");
	uint32_t size = (uint32_t)number(argv[3], "SIZE"), before = 0, place = 0;
	struct bpf_map_info info;
	int rings = open_rings(pid, &info);
	const char *ring = mmap(NULL, info.value_size, PROT_READ, MAP_SHARED, rings, 0);
	if (ring == MAP_FAILED)
		die("the rings");
	const struct weigh_ring_line *line = (const void *)ring;
	uint64_t records = 0;
	for (uint64_t at = 0; at < line->head; records++) {
		uint32_t here = WEIGH_RING_LINE + (uint32_t)at + WEIGH_RING_STAMP + 4, length;
		memcpy(&length, ring + here, sizeof length);
		if (records == wanted) {
			place = here;
			before = length;
		}
		at += (WEIGH_RING_STAMP + (uint64_t)length + WEIGH_RING_ALIGNMENT - 1) / WEIGH_RING_ALIGNMENT * WEIGH_RING_ALIGNMENT;
	}
	errno = 0;
	if (!place)
		die("there are %llu records", (unsigned long long)records);
	write_word(rings, place, size);
	truth("records", records);
	truth("before", before);
	truth_tell();
	return 0;
}
