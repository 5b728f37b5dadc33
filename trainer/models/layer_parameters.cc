#include "trainer/models/layer_parameters.h"

#include <utility>

namespace ddprun::trainer {

namespace {

thread_local std::shared_ptr<const TensorAxis> axis_of_layers;

}  // namespace

SplitLayersScope::SplitLayersScope(std::shared_ptr<const TensorAxis> axis) {
  axis_of_layers = std::move(axis);
}

SplitLayersScope::~SplitLayersScope() {
  axis_of_layers.reset();
}

std::shared_ptr<const TensorAxis> SplitLayersScope::Axis() {
  return axis_of_layers;
}

}  // namespace ddprun::trainer
