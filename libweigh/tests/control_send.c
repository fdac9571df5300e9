/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sends a request to programs under `weigh run`, and prints what became of it.
 *
 * usage: control_send TARGET KIND NUMBER KEY TEXT SECONDS
 */
#include "check.h"
#include <weigh_region.h>

int main(int count, char **arguments)
{
	struct weigh_control request = { 0 };
	struct weigh_sent outcome;

	CHECK(count == 7);
	request.kind = strtoull(arguments[2], 0, 10);
	request.number = strtod(arguments[3], 0);
	snprintf(request.key, sizeof(request.key), "%s", arguments[4]);
	snprintf(request.text, sizeof(request.text), "%s", arguments[5]);
	if (weigh_control_send(arguments[1], &request, strtod(arguments[6], 0), &outcome)) {
		printf("not sent: %s\n", outcome.why);
		return 1;
	}
	printf("%u processes, %u taken, %u waiting, %u ended\n", outcome.processes, outcome.taken, outcome.waiting,
	       outcome.ended);
	return 0;
}
