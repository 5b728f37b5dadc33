// Chooses the engine for matrix products: measures once per machine and remembers in a file.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "trainer/compute/matmul.h"

namespace ddprun::trainer {

struct EngineMeasurement {
  MatmulEngine engine = MatmulEngine::kDefault;
  double gflops = 0;  // 1e9 floating-point operations per second, for a layer's three products
  double error = 0;   // the largest, relative to the largest element of the float64 product
};

struct EngineChoice {
  MatmulEngine engine = MatmulEngine::kDefault;
  std::vector<EngineMeasurement> measurements;  // empty means not measured
  bool remembered = false;                      // read from the file

  // Returns "matrix products: onednn, 110 GFLOP/s, error 6e-07 (default: 98 GFLOP/s, error 5e-07)".
  std::string Describe() const;
};

// Pure. Returns the fastest engine with the error of float32 arithmetic. An engine must beat
// LibTorch's default by 3 %, because less is noise.
MatmulEngine FastestExact(const std::vector<EngineMeasurement>& measurements);

// Measures both engines on the three products of one layer, with LibTorch's current number of
// threads. Takes about 40 ms on one core.
std::vector<EngineMeasurement> MeasureEngines();

// Returns the file for this processor, LibTorch and number of threads:
// $XDG_CACHE_HOME/ddprun/matmul-*.json, else ~/.cache/ddprun/...; "" if there is no home.
std::string EngineFile(const Environment& environment);

// Returns the file's choice. If there is no readable file, measures and writes it; a failed write
// is no error. If processes start together, one measures and the others wait.
EngineChoice ChooseEngine(const std::string& file);

}  // namespace ddprun::trainer
