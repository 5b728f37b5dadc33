#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/failure.h"
#include "tests/base/error_of.h"
#include "tests/trainer/data/resume_check.h"
#include "trainer/models/plugin_model.h"
#include "trainer/plugin/plugin_dataset.h"

namespace ddprun::trainer {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

Error LoadError(const std::string& path) {
  return ErrorOf([&] { LoadPlugin(path); });
}

std::string Fault(const std::string& fault) {
  return R"({"fault": ")" + fault + R"("})";
}

// A copy of the plugin with other bytes at a place of its descriptor.
class ChangedPlugin : public ::testing::Test {
 protected:
  ChangedPlugin() {
    std::string name = (fs::temp_directory_path() / "plugin-test-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    std::ifstream file(FAULTY_PLUGIN, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    const std::array<char, 16> magic = PluginMagic();
    descriptor_ = bytes_.find(std::string(magic.begin(), magic.end()));
  }
  ~ChangedPlugin() override { fs::remove_all(folder_); }

  Error LoadErrorWith(size_t offset, const std::string& bytes) {
    bytes_.replace(descriptor_ + offset, bytes.size(), bytes);
    return LoadErrorOf(bytes_);
  }

  Error LoadErrorOf(const std::string& bytes) {
    const std::string path = folder_ / "changed.so";
    std::ofstream(path, std::ios::binary) << bytes;
    const Error error = LoadError(path);
    EXPECT_EQ(error.where, path);
    EXPECT_EQ(error.code, Code::kUsage);
    return error;
  }

  fs::path folder_;
  std::string bytes_;
  size_t descriptor_ = 0;
};

TEST_F(ChangedPlugin, OfAnotherInterfaceIsRefused) {
  const Error error = LoadErrorWith(offsetof(PluginDescriptor, abi), {'\x63', 0, 0, 0});
  EXPECT_EQ(error.title, "PLUGIN OF ANOTHER BUILD");
  EXPECT_EQ(error.what,
            "The plugin interface of the plugin is number 99; this ddp-trainer has number " +
                std::to_string(kPluginAbi) + ".");
}

TEST_F(ChangedPlugin, OfAnotherDdprunIsRefused) {
  const Error error = LoadErrorWith(offsetof(PluginDescriptor, ddprun), "9.8.7");
  EXPECT_THAT(error.what, HasSubstr("ddprun of the plugin is 9.8.7 (compiled with "));
  EXPECT_THAT(error.what, HasSubstr(std::string("this ddp-trainer has ") + DDPRUN_VERSION + "."));
}

TEST_F(ChangedPlugin, OfAnotherPyTorchIsRefused) {
  const Error error = LoadErrorWith(offsetof(PluginDescriptor, torch), std::string("1.2\0", 4));
  EXPECT_THAT(error.what, HasSubstr("PyTorch of the plugin is 1.2 (compiled with "));
  EXPECT_THAT(error.what, HasSubstr(TORCH_VERSION));
}

TEST_F(ChangedPlugin, OfAnotherLibraryIsRefused) {
  const Error error =
      LoadErrorWith(offsetof(PluginDescriptor, library), std::string("libc++\0", 7));
  EXPECT_THAT(error.what, HasSubstr("The C++ library of the plugin is libc++ (compiled with "));
  EXPECT_THAT(error.what, HasSubstr("this ddp-trainer has libstdc++, C++11 ABI."));
}

TEST_F(ChangedPlugin, OfAnotherMachineIsRefused) {
  const uint16_t machine = 243;  // RISC-V
  bytes_.replace(offsetof(Elf64_Ehdr, e_machine), sizeof(machine),
                 reinterpret_cast<const char*>(&machine), sizeof(machine));
  EXPECT_THAT(LoadErrorOf(bytes_).what, HasSubstr("is no shared object for this machine."));
}

TEST_F(ChangedPlugin, ThatIsCutOffIsRefusedWhereverItIsCut) {
  for (const size_t size :
       {size_t{0}, size_t{3}, size_t{64}, descriptor_ + 20, descriptor_ + 300, bytes_.size() / 2}) {
    EXPECT_EQ(LoadErrorOf(bytes_.substr(0, size)).page, "plugin-cannot-be-used") << size;
  }
  EXPECT_THAT(LoadErrorOf(bytes_.substr(0, bytes_.size() / 2)).what, HasSubstr("is cut off: "));
}

TEST(LoadPlugin, NamesAFileThatIsNotThere) {
  const Error error = LoadError("/nowhere/plugin.so");
  EXPECT_EQ(error.title, "PLUGIN CANNOT BE USED");
  EXPECT_EQ(error.what, "\"/nowhere/plugin.so\" cannot be read: No such file or directory.");
}

TEST(LoadPlugin, RefusesOtherFiles) {
  EXPECT_THAT(LoadError("/etc/passwd").what, HasSubstr("is no shared object"));
  EXPECT_THAT(LoadError("/tmp").what, HasSubstr("cannot be read"));
  EXPECT_THAT(LoadError(NO_PLUGIN).what, HasSubstr("is a shared object, but no plugin"));
}

TEST(LoadPlugin, PassesOnWhatTheLinkerSays) {
  const Error error = LoadError(UNRESOLVED_PLUGIN);
  EXPECT_THAT(error.what, HasSubstr("undefined symbol: _ZN4lost14NowhereDefinedEv"));
}

TEST(Plugin, WithoutAModelSaysSo) {
  const Plugin plugin = LoadPlugin(FAULTY_PLUGIN);
  plugin.RequireModel();
  EXPECT_EQ(ErrorOf([&] { MakePluginModel(plugin, {.json = Fault("null")}); }).what,
            "The plugin made no model: nullptr.");
  const std::string observer = OBSERVER_PLUGIN;
  EXPECT_EQ(ErrorOf([&] { LoadPlugin(observer).RequireModel(); }).what,
            "\"" + observer + "\" has no model, and model.type \"plugin\" asks for one.");
}

TEST(Plugin, WithoutAnObserverSaysSo) {
  const std::string path = FAULTY_PLUGIN;
  EXPECT_EQ(ErrorOf([&] { LoadPlugin(path).RequireObserver(); }).what,
            "\"" + path + "\" has no observer, and report.plugin asks for one.");
}

std::shared_ptr<Model> MakeLine(const std::string& fault) {
  return MakePluginModel(LoadPlugin(FAULTY_PLUGIN), {.json = Fault(fault)});
}

std::unique_ptr<PluginDataset> OpenNumbers(const std::string& fault) {
  return std::make_unique<PluginDataset>(LoadPlugin(FAULTY_PLUGIN),
                                         PluginDataOptions{.json = Fault(fault)});
}

Batch Numbers(const std::vector<int64_t>& indices) {
  return OpenNumbers("")->Get(indices);
}

std::string ModelError(const std::string& fault) {
  return ErrorOf([&] { MakeLine(fault)->Loss(Numbers({0, 1})); }).what;
}

std::string DataError(const std::string& fault) {
  return ErrorOf([&] { OpenNumbers(fault)->Get(std::vector<int64_t>{7, 3}); }).what;
}

TEST(PluginModel, TrainsLikeAModelOfOurs) {
  const auto model = MakeLine("");
  const Batch batch = Numbers({4, 5, 6});
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.predictions, 3);
  const at::Tensor loss = model->Loss(batch);
  EXPECT_FLOAT_EQ(loss.item<float>(), 1.0F);  // (1 + 1 - 1)^2
  loss.backward();
  EXPECT_FLOAT_EQ(model->parameters().at(0).grad().sum().item<float>(), 4.0F);
  EXPECT_EQ(model->State().keys(), (std::vector<std::string>{"weight", "calls"}));
  EXPECT_THAT(model->ConfigJson(), HasSubstr("libfaulty_plugin.so"));
}

TEST(PluginModel, CountsASharedTensorOnce) {
  EXPECT_EQ(ParameterCount(*MakeLine("tied")), 2);
}

TEST(PluginModel, ExplainsWhatItsCodeThrows) {
  EXPECT_EQ(ModelError("throw in constructor"),
            "While making the model, the plugin threw:\nno such layer: attention");
  EXPECT_THAT(ModelError("throw 42"),
              HasSubstr("the plugin threw:\nno std::exception, but an object of type int"));
  const std::string shapes = ModelError("wrong shape");
  EXPECT_THAT(shapes, HasSubstr("While computing the loss of a batch with inputs Float [2, 2] and "
                                "targets Float [2, 1], the plugin threw:\n"));
  EXPECT_THAT(shapes, HasSubstr("mat1 and mat2 shapes cannot be multiplied"));
  EXPECT_THAT(shapes, ::testing::Not(HasSubstr("frame #")));
}

TEST(PluginModel, RefusesWhatCannotBeTrained) {
  EXPECT_THAT(ModelError("no parameter"), HasSubstr("has no parameter to train"));
  EXPECT_THAT(ModelError("integer parameter"), HasSubstr("The parameter weight is Long [2, 1]"));
  EXPECT_THAT(ModelError("loss per sample"), HasSubstr("The loss is Float [2, 1]; a floating"));
  EXPECT_THAT(ModelError("loss without graph"), HasSubstr("does not depend on any parameter"));
  EXPECT_THAT(ErrorOf([] { MakeLine("undefined outputs")->Outputs(Numbers({0})); }).what,
              HasSubstr("Outputs() returned an undefined tensor"));
}

std::string MetricError(const std::string& fault) {
  return ErrorOf([&] {
           const auto model = MakeLine("metric" + fault);
           OwnMetrics* const metrics = model->own_metrics();
           std::vector<MetricSum> sums;
           for (const Batch& batch : {Numbers({0, 1}), Numbers({2})}) {
             sums = metrics->SumMetrics(model->Outputs(batch), batch);
           }
           metrics->MetricValues(sums);
         })
      .what;
}

TEST(PluginModel, BringsItsOwnMetrics) {
  EXPECT_EQ(MakeLine("")->own_metrics(), nullptr);
  const auto model = MakeLine("metrics");
  OwnMetrics* const metrics = model->own_metrics();
  EXPECT_EQ(metrics->MetricNames(), (std::vector<std::string>{"hits", "misses"}));
  const Batch batch = Numbers({0, 1});
  const auto sums = metrics->SumMetrics(model->Outputs(batch), batch);
  EXPECT_EQ(metrics->MetricValues(sums), (std::vector<double>{1, 0.75}));
}

TEST(PluginModel, RefusesMetricsThatNoLogCanHold) {
  EXPECT_EQ(MetricError(" twice"), "The metric \"hits\": another has this name.");
  EXPECT_EQ(MetricError(" with a space"),
            "The metric \"top 5\": a name without spaces was expected.");
  for (const char* taken : {" loss", " event", " folder"}) {
    EXPECT_THAT(MetricError(taken), HasSubstr("has another value of this name"));
  }
  EXPECT_EQ(MetricError(" sums missing"),
            "MetricValues() made 0 values of 0 sums; MetricNames() has 2 names.");
  EXPECT_EQ(MetricError(" sums vary"),
            "SumMetrics() gave 1 sums for a batch and 2 for the first; equally many were "
            "expected.");
  EXPECT_EQ(MetricError(" throws"),
            "While adding up the metrics of a batch with inputs Float [2, 2] and targets Float "
            "[2, 1], the plugin threw:\nclass 3 of 3");
}

TEST(PluginDataset, NamesTheSamplesOfABadBatch) {
  EXPECT_EQ(DataError("throw"),
            "While reading the samples 7, 3, the plugin threw:\nrow 7 has no column 3");
  EXPECT_EQ(DataError("short"),
            "After reading the samples 7, 3: `inputs` is 1 samples; 2 samples along dimension 0 "
            "were expected.");
  EXPECT_THAT(DataError("scalar targets"), HasSubstr("`targets` is a scalar;"));
  EXPECT_THAT(DataError("samples"), HasSubstr("says that it has 7 samples and 0 predictions"));
  EXPECT_THAT(DataError("empty"), HasSubstr("has 0 samples; at least one was expected"));
}

TEST(PluginDataset, TellsOfThreadsThatAForkWillLack) {
  EXPECT_TRUE(OpenNumbers("")->Notes().empty());
  EXPECT_THAT(OpenNumbers("opening: thread")->Notes(),
              testing::ElementsAre(HasSubstr("left threads running (1)")));
}

TEST(PluginDataset, MustSayWhenPredictionsVary) {
  const auto wrong = OpenNumbers("unannounced predictions");
  wrong->Get(std::vector<int64_t>{0, 1});
  EXPECT_THAT(ErrorOf([&] {
                wrong->Get(std::vector<int64_t>{4, 5});
              }).what,
              HasSubstr("must override equal_predictions()"));
  const auto right = OpenNumbers("varying predictions");
  right->Get(std::vector<int64_t>{0, 1});
  EXPECT_EQ(right->Get(std::vector<int64_t>{4, 5}).predictions, 10);
}

TEST(PluginDataset, ChecksAndSumsWeights) {
  EXPECT_EQ(OpenNumbers("weights")->Get(std::vector<int64_t>{0, 1, 2}).sum_of_weights, 1.5);
  EXPECT_THAT(DataError("unannounced weights"),
              HasSubstr("A batch has `weights`: such a data set must override"));
  EXPECT_THAT(DataError("weights of another type"), HasSubstr("float32 numbers were expected"));
  EXPECT_THAT(DataError("weights of 0"), HasSubstr("a sum above 0 was expected"));
  EXPECT_THAT(DataError("weights with a wrong sum"),
              HasSubstr("with the sum 1.000000, but `sum_of_weights` is 5.000000."));
}

TEST(PluginDataset, ChecksClasses) {
  const auto classes_error = [](const std::string& fault) {
    return ErrorOf([&] { OpenNumbers(fault)->Classes(); }).what;
  };
  EXPECT_TRUE(OpenNumbers("")->Classes().empty());
  EXPECT_EQ(OpenNumbers("classes")->Classes(), std::vector<int64_t>(100, 2));
  EXPECT_EQ(classes_error("few classes"), "The plugin gives 3 classes for 100 samples.");
  EXPECT_EQ(classes_error("class 3"),
            "The plugin gives sample 0 the class 3; its shape() has 3 classes, the first of which "
            "is 0.");
}

class PluginResume : public ResumeCheck {};

TEST_F(PluginResume, GoesOnInTheMiddleOfAnEpoch) {
  ExpectExact([] { return OpenNumbers("none, varied"); });
}

}  // namespace
}  // namespace ddprun::trainer
