#include "trainer/parallel/reducer.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "base/failure.h"
#include "tests/trainer/parallel/reducer_fixture.h"
#include "trainer/parallel/module_sync.h"

namespace ddprun::trainer {
namespace {

// Three layers; `Loss` uses them in the order in which they are declared.
struct Model {
  Model() {
    for (size_t i = 0; i < kSizes.size(); ++i) {
      at::Tensor weight = Random(kSizes[i], 100 + i);
      parameters.push_back({"weight" + std::to_string(i), weight.set_requires_grad(true)});
    }
  }
  at::Tensor Loss(const at::Tensor& input) const {
    at::Tensor x = input;
    for (const NamedParameter& parameter : parameters)
      x = at::tanh(at::matmul(x, parameter.tensor));
    return x.pow(2).sum();
  }
  std::vector<at::Tensor> Gradients() const {
    std::vector<at::Tensor> result;
    for (const NamedParameter& parameter : parameters) {
      result.push_back(parameter.tensor.grad().clone());
    }
    return result;
  }
  static inline const std::vector<std::vector<int64_t>> kSizes = {{10, 30}, {30, 20}, {20, 5}};
  std::vector<NamedParameter> parameters;
};

at::Tensor Input(int rank, int micro) {
  return Random({7, 10}, static_cast<uint64_t>(rank * 10 + micro));
}

// Returns the gradients of a single process: the sum over micro-batches on each rank, added in rank
// order, divided by the number of ranks.
std::vector<at::Tensor> Expected(int size, int micro_batches) {
  std::vector<at::Tensor> sum;
  for (int rank = 0; rank < size; ++rank) {
    Model model;
    for (int micro = 0; micro < micro_batches; ++micro) model.Loss(Input(rank, micro)).backward();
    const std::vector<at::Tensor> gradients = model.Gradients();
    if (sum.empty()) {
      sum = gradients;
    } else {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradients[i];
    }
  }
  for (at::Tensor& gradient : sum) gradient /= size;
  return sum;
}

struct Case {
  int size;
  int micro_batches;
  Reducer::Overlap overlap;
  int64_t cap_bytes;
};

constexpr auto kBackward = Reducer::Overlap::kBackward;
constexpr auto kStep = Reducer::Overlap::kStep;
constexpr auto kBoth = Reducer::Overlap::kBoth;
constexpr auto kNone = Reducer::Overlap::kNone;

std::string NameOf(Reducer::Overlap overlap) {
  const std::array<const char*, 4> names = {"Backward", "Step", "Both", "None"};
  return names[static_cast<size_t>(overlap)];
}

class ReducerCases : public testing::TestWithParam<Case> {};

TEST_P(ReducerCases, AveragesBitForBitLikeOneProcess) {
  const auto [size, micro_batches, overlap, cap_bytes] = GetParam();
  const std::vector<at::Tensor> expected = Expected(size, micro_batches);
  WithGroup(size, [&, micro_batches = micro_batches, overlap = overlap, cap_bytes = cap_bytes](
                      const auto& group, int rank) {
    Model model;
    Reducer reducer(model.parameters, group,
                    {.limits = {.first_bytes = 300, .cap_bytes = cap_bytes}, .overlap = overlap});
    for (int step = 0; step < 3; ++step) {  // the buckets are laid out anew after the first
      reducer.BeginStep();
      for (int micro = 0; micro < micro_batches; ++micro) {
        reducer.PrepareBackward(micro + 1 == micro_batches);
        model.Loss(Input(rank, micro)).backward();
      }
      reducer.WaitForBuckets();
      const std::vector<at::Tensor> gradients = model.Gradients();
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(at::equal(gradients[i], expected[i])) << "step " << step << " gradient " << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         ReducerCases,
                         testing::Values(Case{1, 1, kBackward, 1000},
                                         Case{2, 1, kBackward, 1000},
                                         Case{2, 1, kNone, 1000},
                                         Case{2, 1, kStep, 1000},
                                         Case{2, 3, kStep, 1000},
                                         Case{3, 2, kBoth, 1},
                                         Case{2, 3, kBackward, 1000},
                                         Case{3, 2, kBackward, 1},
                                         Case{4, 1, kBackward, 1 << 20},
                                         Case{8, 1, kBackward, 1000}),
                         [](const auto& test) {
                           const Case& c = test.param;
                           return std::to_string(c.size) + "Ranks" +
                                  std::to_string(c.micro_batches) + "MicroBatches" +
                                  NameOf(c.overlap) + std::to_string(c.cap_bytes) + "Bytes";
                         });

TEST(Reducer, KeepsGradientsInItsBuckets) {
  WithGroup(2, [](const auto& group, int rank) {
    Model model;
    Reducer reducer(model.parameters, group, {.limits = {.first_bytes = 1, .cap_bytes = 3000}});
    reducer.BeginStep();
    reducer.PrepareBackward(true);
    model.Loss(Input(rank, 0)).backward();
    for (const at::Tensor& flat : reducer.FlatGradients()) flat.zero_();
    for (const at::Tensor& gradient : model.Gradients()) {
      EXPECT_TRUE(at::equal(gradient, at::zeros_like(gradient)));
    }
  });
}

TEST(Reducer, LaysOutBucketsInTheOrderOfTheFirstBackward) {
  WithGroup(2, [](const auto& group, int rank) {
    Model model;
    // Declared the other way round, so that the first guess is wrong.
    std::vector<NamedParameter> reversed(model.parameters.rbegin(), model.parameters.rend());
    Reducer reducer(reversed, group, {.limits = {.first_bytes = 1, .cap_bytes = 1}});
    using testing::ElementsAre;
    EXPECT_THAT(reducer.BucketNames(), ElementsAre(ElementsAre("weight0"), ElementsAre("weight1"),
                                                   ElementsAre("weight2")));
    for (int step = 0; step < 2; ++step) {
      reducer.BeginStep();
      reducer.PrepareBackward(true);
      model.Loss(Input(rank, 0)).backward();
    }
    EXPECT_THAT(reducer.BucketNames(), ElementsAre(ElementsAre("weight2"), ElementsAre("weight1"),
                                                   ElementsAre("weight0")));
  });
}

TEST(Reducer, NamesTheParametersWithoutGradient) {
  WithGroup(2, [](const auto& group, int rank) {
    Model model;
    at::Tensor unused = at::zeros({3}).set_requires_grad(true);
    model.parameters.push_back({"head.bias", unused});
    Reducer reducer(model.parameters, group, {});
    model.parameters.pop_back();
    reducer.BeginStep();
    reducer.PrepareBackward(true);
    try {
      model.Loss(Input(rank, 0)).backward();
      ADD_FAILURE() << "a parameter without gradient was accepted";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().title, "PARAMETERS WITHOUT GRADIENT");
      EXPECT_NE(failure.error().what.find("1 of 4 parameters got no gradient:\n    head.bias"),
                std::string::npos);
    }
  });
}

TEST(VerifySameModel, AcceptsEqualModelsAndCopiesRankZero) {
  WithGroup(3, [](const auto& group, int rank) {
    Model model;
    VerifySameModel(model.parameters, *group);
    for (const auto& parameter : model.parameters) parameter.tensor.detach().add_(rank);
    BroadcastFrom(0, model.parameters, *group);
    const Model fresh;
    for (size_t i = 0; i < fresh.parameters.size(); ++i) {
      EXPECT_TRUE(at::equal(model.parameters[i].tensor, fresh.parameters[i].tensor));
    }
  });
}

// As many as a ResNet-101 has buffers, every third a counter.
TEST(BroadcastFrom, SendsSmallTensorsTogether) {
  WithGroup(2, [](const auto& group, int rank) {
    std::vector<NamedParameter> tensors;
    for (int i = 0; i < 300; ++i) {
      const bool counts = i % 3 == 0;
      tensors.push_back({"buffer", at::full({counts ? 1 : 64 + i}, 1000 * rank + i,
                                            counts ? at::kLong : at::kFloat)});
    }
    tensors.push_back({"gaps", at::full({3, 5}, rank, at::kFloat).t()});
    tensors.push_back({"large", at::full({2'000'000}, rank, at::kFloat)});
    const uint64_t before = group->getSequenceNumberForGroup();
    BroadcastFrom(1, tensors, *group);
    EXPECT_EQ(group->getSequenceNumberForGroup() - before, 3U);
    for (int i = 0; i < 300; ++i) {
      const at::Tensor& tensor = tensors[static_cast<size_t>(i)].tensor;
      EXPECT_TRUE(at::equal(tensor, at::full_like(tensor, 1000 + i))) << i;
    }
    for (size_t i = 300; i < 302; ++i) {
      EXPECT_TRUE(at::equal(tensors[i].tensor, at::ones_like(tensors[i].tensor)));
    }
  });
}

TEST(VerifySameModel, NamesTheFirstDifferenceAndTheRanksThatDiffer) {
  WithGroup(3, [](const auto& group, int rank) {
    Model model;
    if (rank == 2) model.parameters[1].tensor = at::zeros({30, 21});
    try {
      VerifySameModel(model.parameters, *group);
      ADD_FAILURE() << "different models were accepted";
    } catch (const Failure& failure) {
      const std::string& what = failure.error().what;
      EXPECT_NE(what.find("Rank 2 has another model than rank 0."), std::string::npos);
      if (rank == 2) {
        EXPECT_NE(what.find("tensor 2:\n    rank 0 has weight1 Float [30, 20]\n"
                            "    here is    weight1 Float [30, 21]"),
                  std::string::npos)
            << what;
      }
    }
  });
}

TEST(VerifySameModel, NamesATypeAFrozenParameterAndABufferThatDiffer) {
  const auto complaint = [](const std::function<void(std::vector<NamedParameter>&)>& change) {
    std::string what;
    WithGroup(2, [&](const auto& group, int rank) {
      std::vector<NamedParameter> tensors = Model().parameters;
      tensors.push_back({"norm.running_mean", at::zeros({4})});
      if (rank == 1) change(tensors);
      try {
        VerifySameModel(tensors, *group);
        ADD_FAILURE() << "different models were accepted";
      } catch (const Failure& failure) {
        if (rank == 1) what = failure.error().what;
      }
    });
    return what;
  };
  using testing::HasSubstr;
  EXPECT_THAT(complaint([](auto& all) { all[1].tensor = all[1].tensor.detach().to(at::kDouble); }),
              HasSubstr("rank 0 has weight1 Float [30, 20]\n    here is    weight1 Double"));
  EXPECT_THAT(complaint([](auto& all) { all[2].tensor.set_requires_grad(false); }),
              HasSubstr("here is    weight2 Float [20, 5] without gradient"));
  EXPECT_THAT(complaint([](auto& all) { all[3].tensor = at::zeros({5}); }),
              HasSubstr("here is    norm.running_mean Float [5] without gradient"));
}

TEST(Reducer, RefusesAParameterOnAnotherDevice) {
  WithGroup(1, [](const auto& group, int) {
    const at::Tensor here = at::zeros({2}).set_requires_grad(true);
    const at::Tensor there = at::empty({2}, at::device(at::kMeta)).set_requires_grad(true);
    try {
      Reducer reducer({{"here", here}, {"there", there}}, group, {});
      ADD_FAILURE() << "two devices were accepted";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().title, "BAD PARAMETER");
      EXPECT_EQ(failure.error().where, "there");
      EXPECT_THAT(failure.error().what, testing::HasSubstr("on meta; here is on cpu"));
    }
  });
}

// Backward of the second step fails on rank 1; says how, and how rank 0 ended.
struct Failed {
  Error rank0;
  Error rank1;
};

Failed FailSecondStep(const std::shared_ptr<CommHook>& hook_of_rank1, bool not_a_number) {
  Failed failed;
  WithGroup(2, [&](const auto& group, int rank) {
    Model model;
    Reducer reducer(model.parameters, group,
                    {.comm_hook = rank == 1 ? hook_of_rank1 : nullptr, .check_finite = true});
    try {
      for (int step = 0; step < 2; ++step) {
        group->setTimeout(std::chrono::seconds(step == 0 ? 60 : 1));
        reducer.BeginStep();
        reducer.PrepareBackward(true);
        at::Tensor loss = model.Loss(Input(rank, 0));
        if (not_a_number && rank == 1 && step == 1) loss = loss * std::nan("");
        loss.backward();
      }
      ADD_FAILURE() << "rank " << rank << " went on";
    } catch (const Failure& failure) {
      (rank == 0 ? failed.rank0 : failed.rank1) = failure.error();
    }
  });
  return failed;
}

class FailingHook : public CommHook {
 public:
  std::function<void()> Start(GradientBucket& bucket, c10d::Backend& group) override {
    if (++calls_ == 2) throw std::runtime_error("no room for " + std::to_string(bucket.index));
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::AVG;
    std::vector<at::Tensor> tensors = {bucket.flat};
    return [work = group.allreduce(tensors, options)] { work->wait(); };
  }

 private:
  int calls_ = 0;
};

TEST(Reducer, EndsAllRanksWhenAHookThrows) {
  const Failed failed = FailSecondStep(std::make_shared<FailingHook>(), false);
  EXPECT_EQ(failed.rank1.title, "COMM HOOK FAILED");
  EXPECT_EQ(failed.rank1.where, "rank 1, step 2");
  EXPECT_THAT(failed.rank1.what, testing::HasSubstr("bucket 0 (weight2, weight1, weight0): "
                                                    "no room for 0"));
  EXPECT_THAT(failed.rank0.what, testing::HasSubstr("1"));  // who did not come
  EXPECT_EQ(failed.rank0.code, Code::kDeadlineExceeded);
}

TEST(Reducer, EndsAllRanksWhenAGradientIsNotFinite) {
  const Failed failed = FailSecondStep(nullptr, true);
  EXPECT_EQ(failed.rank1.title, "BAD GRADIENT");
  EXPECT_EQ(failed.rank1.where, "rank 1, step 2");
  EXPECT_THAT(failed.rank1.what, testing::HasSubstr("weight2 has a gradient with infinities"));
  EXPECT_EQ(failed.rank0.code, Code::kDeadlineExceeded);
}

}  // namespace
}  // namespace ddprun::trainer
