// What strategies find out and tell observers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::trainer {

// Which bucket sizes were tried and which one stays.
struct BucketSizesReport {
  struct Trial {
    double bucket_cap_mb = 0;  // MiB, as the next
    double first_bucket_mb = 0;
    int64_t buckets = 0;
    double seconds = 0;  // from the beginning of the step's last forward to the averages
  };
  int64_t step = 0;                // after which they were found
  std::vector<Trial> trials = {};  // the default first
  size_t chosen = 0;
};

// What one process has on each of its devices in a step, as far as it is known by name: not what
// layers keep for backward, nor their workspace. Told for each way in which samples are shared out.
struct DeviceMemoryReport {
  struct Device {
    std::string name = {};  // "cuda:1"
    int64_t samples = 0;    // of a micro-batch
    // Sizes of what is gathered there: all outputs, or a loss of each device; elsewhere empty.
    std::vector<int64_t> gathered = {};
    int64_t model = 0;  // parameters and buffers; bytes, as the next
    int64_t gradients = 0;
    int64_t optimizer = 0;
    int64_t batch = 0;
    int64_t outputs = 0;  // its own; gathered ones with their gradients

    int64_t total() const { return model + gradients + optimizer + batch + outputs; }
  };
  int64_t step = 0;
  std::vector<Device> devices = {};
};

}  // namespace ddprun::trainer
