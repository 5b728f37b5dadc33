// Measures the same as ddp-allreduce, with MPI: in-place sums of fp32, the median of about half a
// second of rounds per size. mpicxx -O2; mpirun -np N mpi_allreduce BYTES...
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

double Once(std::vector<float>& values) {
  const double begin = MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
  return MPI_Wtime() - begin;
}

double MedianSeconds(size_t bytes) {
  std::vector<float> values(bytes / sizeof(float));
  for (int i = 0; i < 10; ++i) Once(values);
  double estimate = Once(values);
  MPI_Allreduce(MPI_IN_PLACE, &estimate, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  const int rounds = static_cast<int>(std::clamp(0.5 / estimate, 11.0, 20000.0));
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(Once(values));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 1; i < argc; ++i) {
    const size_t bytes = std::strtoul(argv[i], nullptr, 10);
    const double seconds = MedianSeconds(bytes);
    if (rank == 0) {
      std::printf("{\"bytes\": %zu, \"ranks\": %d, \"seconds_median\": %.9f}\n", bytes, ranks,
                  seconds);
    }
  }
  std::fflush(stdout);
#ifdef MPICH_VERSION
  // MPI_Finalize of MPICH 4.0 over UCX and TCP does not return with three and more hosts.
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Abort(MPI_COMM_WORLD, 0);
#else
  MPI_Finalize();
#endif
}
