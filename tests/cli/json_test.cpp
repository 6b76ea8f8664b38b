// Every --json has the keys that docs/json.md says, no more and no less.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>

#include "io/formats/json.h"
#include "io/formats/npy.h"
#include "tests/base/test_file.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

namespace {

using formats::Json;
using Keys = std::set<std::string>;

/// Heading without its ticks, to the keys of its table.
std::map<std::string, Keys> documented() {
  std::ifstream file(test_file("../docs/json.md"));
  std::map<std::string, Keys> sections;
  std::string heading;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## `")) heading = line.substr(4, line.size() - 5);
    if (line.starts_with("| `")) sections[heading].insert(line.substr(3, line.find('`', 3) - 3));
  }
  return sections;
}

bool any_begins(const Keys& keys, const std::string& prefix) {
  const auto at = keys.lower_bound(prefix);
  return at != keys.end() && at->starts_with(prefix);
}

/// Checks that each key of `json` is documented and takes away from `missing` what was found, or what can't be seen
/// because its list is empty.
void compare(const Json& json, const std::string& path, const Keys& keys, Keys& missing) {
  const auto found = [&](const std::string& prefix) {
    std::erase_if(missing, [&](const std::string& key) { return key.starts_with(prefix); });
  };
  if (keys.contains(path)) {
    EXPECT_FALSE(json.is_object() && !json.members().empty())
        << path << " is documented as a value: " << json.dump();
    missing.erase(path);
    return;
  }
  if (keys.contains(path + ".*")) {
    missing.erase(path + ".*");
    return;
  }
  if (json.is_object()) {
    for (const auto& [key, value] : json.members())
      compare(value, path.empty() ? key : path + "." + key, keys, missing);
    return;
  }
  if (json.is_array() && any_begins(keys, path + "[].")) {
    for (const Json& one : json.items()) compare(one, path + "[]", keys, missing);
    if (json.items().empty()) found(path + "[].");
    return;
  }
  if (json.is_null() && any_begins(keys, path + ".")) {  // one that doesn't apply
    found(path + ".");
    return;
  }
  ADD_FAILURE() << "docs/json.md has no key '" << path << "': " << json.dump();
}

class JsonKeys : public testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = std::make_unique<ScratchDirectory>(); }
  static void TearDownTestSuite() { folder_.reset(); }

  static void expect(const std::string& section, std::vector<std::string> command, int exit_code = 0) {
    command.emplace_back("--json");
    const Outcome outcome = run_dlpipe(command);
    EXPECT_EQ(outcome.exit_code, exit_code) << section << "\n" << outcome.err;
    static const std::map<std::string, Keys> sections = documented();
    ASSERT_TRUE(sections.contains(section)) << section;
    const Keys& keys = sections.at(section);
    Keys missing = keys;
    const std::string line = outcome.out.substr(0, outcome.out.find('\n'));
    EXPECT_EQ(line.size() + 1, outcome.out.size()) << "one line: " << outcome.out;
    const auto json = Json::parse(line);
    ASSERT_TRUE(json.ok()) << section << "\n" << outcome.out;
    SCOPED_TRACE(section);
    compare(*json, "", keys, missing);
    missing.erase("nodes[].batch");  // needs a graph that reshapes by the batch
    for (const std::string& key : missing) ADD_FAILURE() << "documented, and not there: " << key;
    seen_.insert(section);
  }

  static std::unique_ptr<ScratchDirectory> folder_;
  static Keys seen_;
};
std::unique_ptr<ScratchDirectory> JsonKeys::folder_;
Keys JsonKeys::seen_;

}  // namespace

TEST_F(JsonKeys, AreDocumentedForEveryCommand) {
  const std::string& run = trained_run().run;
  const std::string& data = trained_run().data.val;
  expect("dlpipe info", {"info"});
  expect("dlpipe info --model", {"info", "--model", "lenet", "--size", "28"});
  expect("dlpipe info PATH", {"info", run});
  expect("dlpipe compile", {"compile", "--ckpt", run, "-o", *folder_ / "m.dlg"});
  expect("dlpipe compile --list-onnx-ops", {"compile", "--list-onnx-ops"});
  const Outcome graph = run_dlpipe({"info", *folder_ / "m.dlg", "--graph"});
  const int64_t size = std::stoll(graph.out.substr(graph.out.find("[N,") + 3));
  const std::vector<float> pixels(static_cast<size_t>(size * size * 3), 0.5F);
  throw_if_error(formats::write_npy(*folder_ / "x.npy", DType::kF32, std::array<int64_t, 4>{1, size, size, 3},
                                    std::as_bytes(std::span(pixels))));
  expect("dlpipe run",
         {"run", *folder_ / "m.dlg", "--input", *folder_ / "x.npy", "--output", *folder_ / "y.npy"});
  expect("dlpipe info GRAPH", {"info", *folder_ / "m.dlg"});
  expect("dlpipe info GRAPH --graph", {"info", *folder_ / "m.dlg", "--graph"});
  expect("dlpipe info GRAPH --profile", {"info", *folder_ / "m.dlg", "--profile"});
  expect("dlpipe synth", {"synth", *folder_ / "jpegs", "--per-class", "4", "--size", "24"});
  std::filesystem::resize_file(*folder_ / "jpegs/ring/00001.jpg", 100);
  expect("dlpipe ingest", {"ingest", *folder_ / "jpegs", *folder_ / "data", "--split", "0.5,0.5"});
  EXPECT_EQ(run_dlpipe({"ingest", *folder_ / "jpegs", *folder_ / "part", "--part", "1/1"}).exit_code, 0);
  expect("dlpipe join", {"join", *folder_ / "joined", *folder_ / "part"});
  expect("dlpipe inspect", {"inspect", *folder_ / "data"});
  expect("dlpipe inspect --skipped", {"inspect", *folder_ / "data", "--skipped"});
  expect("dlpipe inspect --problems", {"inspect", *folder_ / "data", "--problems"});
  expect("dlpipe preview",
         {"preview", "--data", *folder_ / "data", "--augment", "rrc(8)", "-o", *folder_ / "grid.png"});
  expect("dlpipe verify", {"verify", *folder_ / "data"});
  expect("dlpipe export", {"export", *folder_ / "data", *folder_ / "files"});
  std::vector<std::string> train = train_arguments(*folder_ / "run", {"--epochs", "1"});
  expect("dlpipe train", train);
  expect("dlpipe train --overfit-batch", {"train", data, "--model", "lenet", "--batch", "16", "--lr", "0.01",
                                          "--schedule", "constant", "--overfit-batch", "100"});
  ASSERT_EQ(run_dlpipe({"ingest", *folder_ / "jpegs", *folder_ / "folds", "--folds", "2"}).exit_code, 0);
  expect("dlpipe crossval", {"crossval", *folder_ / "folds", "--model", "lenet", "--batch", "8",
                             "--max-steps", "1", "--out", *folder_ / "cv"});
  expect("dlpipe eval", {"eval", "--ckpt", run, data});
  expect("dlpipe eval", {"eval", "--ckpt", run, data, "--report"});
  const std::string image = *folder_ / "jpegs/ring/00000.jpg";
  expect("dlpipe predict", {"predict", "--ckpt", run, image, "--top", "2"});
  expect("dlpipe predict", {"predict", "--ckpt", run, *folder_ / "jpegs/ring/00001.jpg"}, 1);  // no image
  expect("dlpipe export-weights", {"export-weights", run, "-o", *folder_ / "weights.safetensors"});
  expect("dlpipe diff", {"diff", run, *folder_ / "run"}, 1);
  expect("dlpipe doctor", {"doctor", run});
  for (const std::vector<std::string>& part :
       {std::vector<std::string>{"pipeline", data, "--batch", "8", "--augment", "rrc(24)"},
        {"decode", data},
        {"storage", data},
        {"train", "--model", "mlp", "--batch", "4", "--size", "8"},
        {"run", *folder_ / "m.dlg", "--batch", "2"},
        {"ops", "--quick", "--ops", "soft*"},
        {"h2d", "--device", "cpu"}}) {
    std::vector<std::string> command = {"bench"};
    command.insert(command.end(), part.begin(), part.end());
    command.insert(command.end(), {"--seconds", "0.1"});
    expect("dlpipe bench " + part[0], command);
  }
  for (const auto& [section, keys] : documented())
    EXPECT_TRUE(seen_.contains(section) || section == "dlpipe generate" ||
                section == "dlpipe serve --access-log" || section.starts_with("python -m "))
        << section;  // see generate_test, serve_test, and tests/python
}

}  // namespace dlpipe::test
