#include <gtest/gtest.h>

#include <filesystem>

#include "dlpipe/run/record/tensor_file.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {
namespace {

TEST(ExportWeights, WritesOneFileThatOthersRead) {
  ScratchDirectory folder;
  const std::string run = trained_run().run, file = folder / "weights.safetensors";
  const Outcome outcome = run_dlpipe({"export-weights", run, "-o", file});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("10 tensors of lenet at step "), std::string::npos) << outcome.out;
  const auto exported = run::load_tensors(file),
             own = run::load_tensors(run + "/checkpoints/best/model.safetensors");
  ASSERT_TRUE(exported.ok() && own.ok());
  EXPECT_EQ(run::hash_tensors(*exported, 0), run::hash_tensors(*own, 0));
  EXPECT_EQ(run_dlpipe({"info", file}).exit_code, 0);
}

TEST(ExportWeights, RefusesToReplaceAFileAndSaysWhatIsNoCheckpoint) {
  ScratchDirectory folder;
  const std::string file = folder / "weights.safetensors";
  ASSERT_EQ(run_dlpipe({"export-weights", trained_run().run, "-o", file}).exit_code, 0);
  const auto size = std::filesystem::file_size(file);
  const Outcome foreign = run_dlpipe({"export-weights", trained_run().run, "-o", folder / "w.pt"});
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_NE(foreign.err.find("end it in .safetensors"), std::string::npos) << foreign.err;
  const Outcome again = run_dlpipe({"export-weights", trained_run().run, "-o", file});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("exists already"), std::string::npos) << again.err;
  EXPECT_EQ(std::filesystem::file_size(file), size);
  const Outcome nothing = run_dlpipe({"export-weights", folder / "nowhere", "-o", folder / "other"});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_NE(nothing.err.find("there is no "), std::string::npos) << nothing.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "other"));
}

}  // namespace
}  // namespace dlpipe::test
