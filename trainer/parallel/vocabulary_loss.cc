#include "trainer/parallel/vocabulary_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "trainer/compute/device.h"
#include "trainer/compute/matmul.h"
#include "trainer/compute/operations.h"
#include "trainer/compute/precision.h"
#include "trainer/parallel/mesh_collectives.h"

// Shapes: N predictions, n of one piece, C width, V vocabulary, v this rank's part of it.
namespace ddprun::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kIgnoredClass = -100;  // see torch.nn.functional.cross_entropy

// The targets that count, and those whose class has its weights on this rank.
struct Targets {
  Targets(const at::Tensor& all, const VocabularyLossOptions& options)
      : ignored(all.eq(kIgnoredClass)),
        wrong(all.lt(0).logical_or_(all.ge(options.classes)).logical_and_(ignored.logical_not())),
        elsewhere(
            all.lt(options.own.begin).logical_or_(all.ge(options.own.begin + options.own.length))),
        columns((all - options.own.begin).clamp_(0, options.own.length - 1)) {
    TORCH_CHECK_INDEX(!IsForHostKernels(all) || !wrong.any().item<bool>(), "A target of ",
                      all.max().item<int64_t>(), " is out of bounds for ", options.classes,
                      " classes.");
  }

  at::Tensor ignored, wrong, elsewhere;  // bool [N]
  at::Tensor columns;                    // int64 [N], in this rank's part
};

class PartLosses {
 public:
  PartLosses(const at::Tensor& targets, const VocabularyLossOptions& options)
      : options_(options), targets_(targets, options) {}

  // Returns the losses [n] of the rows from `begin` on, from their scores [n, v]. Replaces the
  // scores by LossScale() times the derivatives of the mean loss.
  at::Tensor Take(const at::Tensor& scores, int64_t begin) const {
    const auto rows = [&](const at::Tensor& all) { return all.narrow(0, begin, scores.size(0)); };
    const bool smooths = options_.smoothing > 0;
    const double kept = 1 - options_.smoothing;
    const at::Tensor columns = rows(targets_.columns).unsqueeze(1);
    const at::Tensor elsewhere = rows(targets_.elsewhere);
    at::Tensor top = at::amax(scores, 1);
    AllReduceOnHost(options_.group.get(), top, c10d::ReduceOp::MAX);
    scores.sub_(top.unsqueeze(1));
    // For each row: the target's score, the sum of all scores, the sum of their exponentials.
    at::Tensor sums = at::zeros({3, scores.size(0)}, scores.options());
    sums[0].copy_(scores.gather(1, columns).squeeze(1).masked_fill_(elsewhere, 0));
    if (smooths) sums[1].copy_(scores.sum(1));
    scores.exp_();
    sums[2].copy_(scores.sum(1));
    AllReduceOnHost(options_.group.get(), sums);
    const auto classes = static_cast<double>(options_.classes);
    at::Tensor losses = sums[2].log() - kept * sums[0];
    if (smooths) losses.sub_(sums[1], options_.smoothing / classes);
    losses.masked_fill_(rows(targets_.ignored), 0);
    losses.masked_fill_(rows(targets_.wrong), std::numeric_limits<double>::quiet_NaN());
    const at::Tensor weights =
        (Scale(scores.options()) * rows(targets_.ignored).logical_not()).mul_(LossScale());
    scores.mul_(weights.div(sums[2]).unsqueeze(1));
    const at::Tensor own = elsewhere.logical_not().to(scores.scalar_type()).mul_(-kept);
    scores.scatter_add_(1, columns, own.mul_(weights).unsqueeze(1));
    if (smooths) scores.sub_(weights.mul(options_.smoothing / classes).unsqueeze(1));
    return losses;
  }

  // Returns 1 divided by the number of targets that count.
  at::Tensor Scale(const at::TensorOptions& options) const {
    return targets_.ignored.logical_not().sum().clamp_min(1).to(options.dtype()).reciprocal();
  }

 private:
  const VocabularyLossOptions& options_;
  const Targets targets_;
};

struct Found {
  at::Tensor loss;
  at::Tensor of_hidden;  // gradients; undefined unless wanted
  at::Tensor of_weight;
  std::vector<c10::intrusive_ptr<c10d::Work>> sums;  // running sums of of_hidden
};

Found Compute(const at::Tensor& hidden,
              const at::Tensor& weight,
              const at::Tensor& targets,
              const VocabularyLossOptions& options,
              bool want_gradients) {
  const at::ScalarType type = ComputeType(weight.scalar_type());
  const at::ScalarType loss_type = at::isReducedFloatingType(type) ? at::kFloat : type;
  const at::Tensor rows = hidden.to(type).contiguous();
  const at::Tensor factor = weight.to(type);
  Found found;
  if (want_gradients) {
    found.of_hidden = at::empty_like(rows);
    found.of_weight = at::zeros(weight.sizes(), weight.options());
  }
  const PartLosses loss(targets, options);
  at::Tensor sum = at::zeros({}, weight.options().dtype(at::kDouble));
  // All ranks use equal pieces.
  const int64_t row_bytes = options.largest_part * static_cast<int64_t>(rows.element_size());
  const int64_t piece = std::clamp<int64_t>(ScorePieceBytes(rows) / row_bytes, 1, rows.size(0));
  const at::Tensor in_type = MatrixFor(rows, piece, factor.size(0));
  const at::Tensor exact =
      loss_type == type ? in_type : MatrixFor(rows, piece, factor.size(0), loss_type);
  const at::Tensor& product = TypeOfProducts(rows, loss_type) == loss_type ? exact : in_type;
  for (int64_t begin = 0; begin < rows.size(0); begin += piece) {
    const int64_t length = std::min(piece, rows.size(0) - begin);
    const at::Tensor part = rows.narrow(0, begin, length);
    at::Tensor written = product.narrow(0, 0, length);
    Multiply(part, factor.t(), written);
    const at::Tensor scores = exact.narrow(0, 0, length);
    if (!product.is_same(exact)) scores.copy_(written);
    sum.add_(loss.Take(scores, begin).sum(at::kDouble));
    if (!want_gradients) continue;
    const at::Tensor derivatives = in_type.narrow(0, 0, length);
    if (loss_type != type) derivatives.copy_(scores);
    at::Tensor of_part = found.of_hidden.narrow(0, begin, length);
    Multiply(derivatives, factor, of_part);
    found.sums.push_back(BeginAllReduce(*options.group, of_part));
    if (TypeOfProducts(rows, weight.scalar_type()) == weight.scalar_type()) {
      Multiply(derivatives.t(), part, found.of_weight, /*accumulate=*/true);
    } else {
      found.of_weight.add_(derivatives.t().mm(part));
    }
  }
  found.loss = (sum * loss.Scale(sum.options())).to(loss_type);
  return found;
}

struct Sums : torch::CustomClassHolder {
  explicit Sums(std::vector<c10::intrusive_ptr<c10d::Work>> begun) : works(std::move(begun)) {}
  const std::vector<c10::intrusive_ptr<c10d::Work>> works;
};

class VocabularyLossFunction : public torch::autograd::Function<VocabularyLossFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& hidden,
                            const at::Tensor& weight,
                            const at::Tensor& targets,
                            const VocabularyLossOptions& options,
                            bool want_gradients) {
    Found found = Compute(hidden, weight, targets, options, want_gradients);
    if (want_gradients) {
      context->saved_data["of_hidden"] = found.of_hidden;
      context->saved_data["of_weight"] = found.of_weight;
      context->saved_data["sums"] =
          at::IValue::make_capsule(c10::make_intrusive<Sums>(std::move(found.sums)));
      context->saved_data["type_of_hidden"] = hidden.scalar_type();
      context->saved_data["loss_scale"] = LossScale();
    }
    return found.loss;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    TORCH_CHECK(context->saved_data.count("sums") == 1,
                "VocabularyLoss: backward can run once only.");
    const auto capsule = context->saved_data["sums"].toCapsule();
    for (const auto& sum : static_cast<const Sums&>(*capsule).works) sum->wait();
    const at::Tensor factor = gradients[0] / context->saved_data["loss_scale"].toDouble();
    const auto take = [&](const char* name) {
      // Takes the tensor out of saved_data, because autograd adopts a gradient without other
      // references instead of copying it.
      at::Tensor tensor = context->saved_data[name].toTensor();
      context->saved_data.erase(name);
      return tensor.mul_(factor);
    };
    context->saved_data.erase("sums");
    at::Tensor of_hidden =
        take("of_hidden").to(context->saved_data["type_of_hidden"].toScalarType());
    return {of_hidden, take("of_weight"), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor VocabularyLoss(const at::Tensor& hidden,
                          const at::Tensor& weight,
                          const at::Tensor& targets,
                          const VocabularyLossOptions& options) {
  const bool want_gradients =
      at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  return VocabularyLossFunction::apply(hidden, weight, targets, options, want_gradients);
}

}  // namespace ddprun::trainer
