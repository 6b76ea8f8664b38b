#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "dlpipe/onnx.h"
#include "io/formats/json.h"
#include "io/formats/npy.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

namespace {

struct Compiled {
  ScratchDirectory folder;
  std::string file = folder / "m.dlg";
  std::array<int64_t, 4> shape = {3, 0, 0, 3};

  Compiled() {
    EXPECT_EQ(run_dlpipe({"compile", "--ckpt", trained_run().run, "-o", file}).exit_code, 0);
    const Outcome text = run_dlpipe({"info", file, "--graph"});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    const size_t at = text.out.find("[N,") + 3;
    shape[1] = shape[2] = std::stoll(text.out.substr(at));
  }
  std::string write_input(const std::string& name) const {
    const std::vector<float> values(static_cast<size_t>(shape[0] * shape[1] * shape[2] * shape[3]), 0.5F);
    throw_if_error(formats::write_npy(folder / name, DType::kF32, shape, std::as_bytes(std::span(values))));
    return folder / name;
  }
};

}  // namespace

TEST(Run, WritesWhatTheModelAnswers) {
  const Compiled model;
  const std::string out = model.folder / "y.npy";
  const Outcome outcome =
      run_dlpipe({"run", model.file, "--input", model.write_input("x.npy"), "--output", out});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const formats::NpyArray array = value_or_throw(formats::read_npy(out));
  EXPECT_EQ(array.dtype, DType::kF32);
  ASSERT_EQ(array.shape.size(), 2U);
  EXPECT_EQ(array.shape[0], 3);
  const auto low = run_dlpipe({"run", model.file, "--input", model.write_input("x.npy"), "--output", out,
                               "--dtype", "bf16", "--json"});
  EXPECT_EQ(low.exit_code, 0) << low.err;
  // NumPy has no bf16: what is said is what the file holds.
  EXPECT_NE(low.out.find("\"dtype\":\"f32\""), std::string::npos) << low.out;
  EXPECT_EQ(value_or_throw(formats::read_npy(out)).dtype, DType::kF32);
}

TEST(Run, TakesInputsByNameAndWidensWhatLosesNothing) {
  const Compiled model;
  const std::string out = model.folder / "y.npy", half = model.folder / "half.npy",
                    wide = model.folder / "wide.npy";
  const auto elements =
      static_cast<size_t>(model.shape[0] * model.shape[1] * model.shape[2] * model.shape[3]);
  const std::vector<uint16_t> halves(elements, 0x3800);  // 0.5
  throw_if_error(formats::write_npy(half, DType::kF16, model.shape, std::as_bytes(std::span(halves))));
  std::vector<std::string> answers;
  for (const std::string& input : {model.write_input("x.npy"), "x=" + model.write_input("x.npy"), half}) {
    const Outcome outcome = run_dlpipe({"run", model.file, "--input", input, "--output", out});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    answers.push_back(value_or_throw(formats::read_npy(out)).bytes);
  }
  EXPECT_EQ(answers[1], answers[0]);
  EXPECT_EQ(answers[2], answers[0]);
  const Outcome other = run_dlpipe({"run", model.file, "--input", "z=" + half, "--output", out});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("the model has no input 'z'"), std::string::npos) << other.err;
  const std::vector<double> doubles(elements, 0.5);
  throw_if_error(formats::write_npy(wide, DType::kF64, model.shape, std::as_bytes(std::span(doubles))));
  const Outcome refused = run_dlpipe({"run", model.file, "--input", wide, "--output", out});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("holds f64, but 'x' needs f32; save x.astype('float32')"), std::string::npos)
      << refused.err;
}

TEST(Run, WritesOverNothingThatItReadsOrWrites) {
  const Compiled model;
  const std::string input = model.write_input("x.npy"), before = file_text(input);
  const std::filesystem::path link = model.folder / "link.npy";
  std::filesystem::create_symlink(input, link);
  const std::string bare = model.folder / "m";  // without an ending an output may be called so
  std::filesystem::copy(model.file, bare);
  const auto refused = [&](const std::string& file, const std::string& given, const std::string& out) {
    const Outcome outcome = run_dlpipe({"run", file, "--input", given, "--out", out});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("--out " + out + " would overwrite a file that is read"), std::string::npos)
        << outcome.err;
  };
  refused(model.file, input, input);
  refused(model.file, "x=" + input, model.folder / "./x.npy");
  refused(model.file, input, link);
  refused(bare, input, bare);
  EXPECT_EQ(file_text(input), before);

  engine::onnx::Model two;
  two.opsets[""] = 17;
  two.inputs = {{"x", engine::onnx::ElementType::kFloat, {{1, ""}, {4, ""}}}};
  two.outputs = {{"y", engine::onnx::ElementType::kFloat, {{1, ""}, {4, ""}}},
                 {"z", engine::onnx::ElementType::kFloat, {{1, ""}, {4, ""}}}};
  two.nodes = {{"Relu", "", "one", {"x"}, {"y"}}, {"Sigmoid", "", "two", {"x"}, {"z"}}};
  throw_if_error(engine::onnx::write_model(model.folder / "two.onnx", two));
  const Outcome compiled =
      run_dlpipe({"compile", "--onnx", model.folder / "two.onnx", "-o", model.folder / "two.dlg"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const std::array<float, 4> values = {-1, 0, 1, 2};
  const std::array<int64_t, 2> shape = {1, 4};
  throw_if_error(
      formats::write_npy(model.folder / "in.npy", DType::kF32, shape, std::as_bytes(std::span(values))));
  const auto run_two = [&](const std::string& first, const std::string& second) {
    return run_dlpipe({"run", model.folder / "two.dlg", "--input", model.folder / "in.npy", "--out", first,
                       "--out", second});
  };
  const Outcome same = run_two(model.folder / "out.npy", model.folder / "./out.npy");
  EXPECT_EQ(same.exit_code, 2);
  EXPECT_NE(same.err.find("/./out.npy is given for two outputs"), std::string::npos) << same.err;
  EXPECT_EQ(run_two(model.folder / "y.npy", model.folder / "z.npy").exit_code, 0);
  EXPECT_EQ(run_two("/dev/null", "/dev/null").exit_code, 0);
  EXPECT_EQ(run_two("-", "-").exit_code, 0);
}

TEST(Run, RefusesInputsThatTheModelDoesNotTake) {
  Compiled model;
  model.shape[3] = 2;
  const Outcome shape = run_dlpipe(
      {"run", model.file, "--input", model.write_input("x.npy"), "--output", model.folder / "y.npy"});
  EXPECT_EQ(shape.exit_code, 2) << shape.err;
  EXPECT_NE(shape.err.find("N is the batch"), std::string::npos) << shape.err;
  std::ofstream(model.folder / "bad.npy") << "no array";
  const Outcome bad = run_dlpipe(
      {"run", model.file, "--input", model.folder / "bad.npy", "--output", model.folder / "y.npy"});
  EXPECT_EQ(bad.exit_code, 1) << bad.err;
  EXPECT_NE(bad.err.find("not a .npy file"), std::string::npos) << bad.err;
  const Outcome other = run_dlpipe({"run", model.folder / "bad.npy", "--input", model.folder / "bad.npy",
                                    "--output", model.folder / "y.npy"});
  EXPECT_EQ(other.exit_code, 2) << other.err;
  EXPECT_NE(other.err.find("bad.npy is raw data, not a compiled model"), std::string::npos) << other.err;
  const Outcome none = run_dlpipe({"run", model.folder / "none.dlg", "--input", model.folder / "bad.npy",
                                   "--output", model.folder / "y.npy"});
  EXPECT_EQ(none.exit_code, 1) << none.err;
  EXPECT_NE(none.err.find("none.dlg"), std::string::npos) << none.err;
}

}  // namespace dlpipe::test
