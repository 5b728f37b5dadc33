#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "apps/ddp_trainer/commands.h"
#include "trainer/text/tokenizer.h"
#include "trainer/worker/sample_text.h"

namespace ddprun::trainer {

namespace {

struct GenerateFlags {
  std::string model;
  std::string tokenizer;
  std::string device = "auto";
  TextOptions text = {
      .prompt = "", .model = "", .tokenizer = "", .max_new_tokens = 200, .sampling = {}};
  bool ignore_eos = false;
};

using Clock = std::chrono::steady_clock;

// CLI::Range would write limits with six decimals.
CLI::Validator Number(bool (*accepts)(double), const std::string& words) {
  return CLI::Validator(
      [accepts, words](const std::string& text) {
        double value = 0;
        const bool fits = CLI::detail::lexical_cast(text, value) && accepts(value);
        return fits ? std::string() : "\"" + text + "\" is not a number " + words + ".";
      },
      words);
}

int Generate(const GenerateFlags& flags, const CLI::App& command, const Environment& environment) {
  const auto model = OpenLanguageModel(flags.model, UseDeviceAlone(flags.device, environment));
  TextOptions options = flags.text;
  options.tokenizer = flags.tokenizer;
  if (options.tokenizer.empty() && HasTokenizer(flags.model)) options.tokenizer = flags.model;
  if (options.tokenizer.empty() && model->vocab_size() > 256) {
    std::fprintf(stderr,
                 "warning: \"%s\" has no tokenizer: the first 256 of its %" PRId64
                 " tokens are taken for bytes. Where they are none, name the tokenizer of its "
                 "training data: --tokenizer=FOLDER\n",
                 flags.model.c_str(), model->vocab_size());
  }
  options.model = flags.model;
  const SamplingOptions folders = SamplingOf(flags.model, options.sampling);
  SamplingOptions& sampling = options.sampling;
  if (command.count("--temperature") == 0) sampling.temperature = folders.temperature;
  if (command.count("--top-k") == 0) sampling.top_k = folders.top_k;
  if (command.count("--top-p") == 0) sampling.top_p = folders.top_p;
  options.stop_at_end = !flags.ignore_eos;
  const Clock::time_point start = Clock::now();
  const WrittenText written = WriteText(*model, options);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%s%s\n", options.prompt.c_str(), written.text.c_str());
  std::fprintf(stderr, "%" PRId64 " tokens in %.2f s (%.1f tokens/s)\n", written.new_tokens,
               seconds, static_cast<double>(written.new_tokens) / seconds);
  return 0;
}

}  // namespace

void AddGenerateCommand(CLI::App& app, Command& chosen) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app.add_subcommand("generate", "Write text with a trained language model");
  SamplingOptions& sampling = flags->text.sampling;
  command
      ->add_option("model", flags->model,
                   "Hugging Face folder of a gpt or llama model, such as runs/<name>/model")
      ->required();
  AddDeviceFlag(*command, flags->device, "auto, cpu, cuda or cuda:N");
  command->add_option("--prompt", flags->text.prompt, "What the text begins with");
  command->add_option("--max-new-tokens", flags->text.max_new_tokens, "Longest text, in tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  command
      ->add_option("--temperature", sampling.temperature,
                   "0: always the likeliest token; above 1: more surprising than learnt")
      ->check(Number([](double value) { return value >= 0 && value <= 1000; }, "from 0 to 1000"))
      ->capture_default_str();
  command->add_option("--top-k", sampling.top_k, "Draw among the k likeliest tokens; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  command
      ->add_option("--top-p", sampling.top_p,
                   "Draw among the likeliest tokens that together have this probability")
      ->check(Number([](double value) { return value > 0 && value <= 1; }, "above 0, at most 1"))
      ->capture_default_str();
  command->add_option("--seed", sampling.seed, "Of the draws")->capture_default_str();
  command->add_option("--tokenizer", flags->tokenizer,
                      "Folder of the tokenizer (default: the model's; bytes where it has none)");
  command
      ->add_option("--stop", flags->text.stop_words,
                   "A word before which the text ends; may be given several times")
      ->allow_extra_args(false)
      ->check(CLI::Validator(
          [](const std::string& word) {
            return word.empty() ? "A word to stop at has at least one character." : "";
          },
          "TEXT"));
  command->add_flag("--ignore-eos", flags->ignore_eos,
                    "Write on after a token that ends the text (eos_token_id)");
  command->callback([&chosen, flags, command] {
    chosen = [flags, command](const Environment& environment) {
      return Generate(*flags, *command, environment);
    };
  });
}

}  // namespace ddprun::trainer
