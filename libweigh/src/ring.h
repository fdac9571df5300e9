/* Derived from crates/schema/src/ring.rs, which says how rings are read, by `weigh generate`. */
#ifndef WEIGH_RING_H
#define WEIGH_RING_H

#define WEIGH_RING_MAGIC 0x0033676e69726777ULL
#define WEIGH_RING_LINE 64 /* bytes before a ring's data, and of a line of the array of consumers */
#define WEIGH_RING_STAMP 8 /* bytes before a record */
#define WEIGH_RING_ALIGNMENT 8 /* of positions */
#define WEIGH_RING_SLOP 32768 /* bytes behind a ring's data */
#define WEIGH_RING_MOST_RECORD 32760 /* bytes of the largest record */
#define WEIGH_RING_LEAST_BYTES 4096 /* of a ring's data */
#define WEIGH_RING_MOST_BYTES 268435456 /* of a ring's data */
#define WEIGH_RING_MOST_RINGS 65536 /* of an array */
/* Bytes before a ring's head that are as they were written. */
#define WEIGH_RING_KEPT(bytes) ((bytes) - ((bytes) / 8 < 32768 ? (bytes) / 8 : 32768))

/* The first line of a ring; an element of the array is LINE + bytes + SLOP. */
struct weigh_ring_line {
	unsigned long long magic; /* what it is */
	unsigned long long rings; /* how many there are */
	unsigned long long bytes; /* of the data of each: a power of 2 */
	unsigned long long head; /* how many bytes were ever reserved in it */
	unsigned long long key; /* a record's stamp is its position, and 1, and this */
};

#endif
