// The reports of strategies to observers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::trainer {

// The bucket sizes that were tried, and the chosen one.
struct BucketSizesReport {
  struct Trial {
    double bucket_cap_mb = 0;  // MiB, like first_bucket_mb
    double first_bucket_mb = 0;
    int64_t buckets = 0;
    double seconds = 0;  // from the beginning of the step's last forward to the averages
  };
  int64_t step = 0;                // the step after which they were found
  std::vector<Trial> trials = {};  // the default first
  size_t chosen = 0;
};

// The known memory of one process on each of its devices in a step: without the tensors that layers
// keep for backward, and without their workspace. One report for each division of samples.
struct DeviceMemoryReport {
  struct Device {
    std::string name = {};  // "cuda:1"
    int64_t samples = 0;    // of a micro-batch
    // Sizes of the gathered tensor on the output device: all outputs, or one loss per device. Empty
    // on other devices.
    std::vector<int64_t> gathered = {};
    int64_t model = 0;  // parameters and buffers; in bytes, like the fields below
    int64_t gradients = 0;
    int64_t optimizer = 0;
    int64_t batch = 0;
    int64_t outputs = 0;  // this device's own; gathered ones with their gradients

    int64_t total() const { return model + gradients + optimizer + batch + outputs; }
  };
  int64_t step = 0;
  std::vector<Device> devices = {};
};

}  // namespace ddprun::trainer
