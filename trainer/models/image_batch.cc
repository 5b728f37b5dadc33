#include "trainer/models/image_batch.h"

#include <sstream>

#include "base/failure.h"

namespace ddprun::trainer {

at::Tensor Images(const at::Tensor& inputs, at::IntArrayRef image) {
  if (inputs.is_floating_point()) {
    if (inputs.dim() == 4 && (image.empty() || inputs.sizes().slice(1) == image)) return inputs;
    if (inputs.dim() == 2 && image.size() == 3 &&
        inputs.size(1) == image[0] * image[1] * image[2]) {
      return inputs.view({-1, image[0], image[1], image[2]});
    }
  }
  std::ostringstream text;
  text << "The data gives inputs " << inputs.scalar_type() << " " << inputs.sizes()
       << "; this model takes images: float [batch, channels, height, width]";
  if (!image.empty()) text << " of " << image;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "DATA DOES NOT FIT THE MODEL",
                      .where = "",
                      .what = text.str() + ".",
                      .hint = "Train on images (data.format), or take another model.type.",
                      .page = "data-does-not-fit"});
}

}  // namespace ddprun::trainer
