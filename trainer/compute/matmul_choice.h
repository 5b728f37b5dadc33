// Which engine multiplies matrices: measured once per machine, remembered in a file.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "trainer/compute/matmul.h"

namespace ddprun::trainer {

struct EngineMeasurement {
  MatmulEngine engine = MatmulEngine::kDefault;
  double gflops = 0;  // 1e9 floating-point operations a second, of a layer's three products
  double error = 0;   // largest, relative to the largest element of the product in float64
};

struct EngineChoice {
  MatmulEngine engine = MatmulEngine::kDefault;
  std::vector<EngineMeasurement> measurements;  // empty: nothing was measured
  bool remembered = false;                      // read from the file

  // "matrix products: onednn, 110 GFLOP/s (default: 98), error 6e-07"
  std::string Describe() const;
};

// The fastest whose error is that of float32 arithmetic. Pure. A candidate must beat LibTorch's
// default by 3 %: less is noise.
MatmulEngine FastestExact(const std::vector<EngineMeasurement>& measurements);

// Times both engines on the three products of one layer, with as many threads as LibTorch now has;
// some 40 ms on one core.
std::vector<EngineMeasurement> MeasureEngines();

// The file that remembers this processor, LibTorch and number of threads:
// $XDG_CACHE_HOME/ddprun/matmul-*.json, else ~/.cache/ddprun/...; empty when there is no home.
std::string EngineFile(const Environment& environment);

// What the file remembers or, where it does not exist or cannot be read, what is measured now and
// written there. Of several processes that start together one measures and the others wait for it.
// A file that cannot be written is no error.
EngineChoice ChooseEngine(const std::string& file);

}  // namespace ddprun::trainer
