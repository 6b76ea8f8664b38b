#include <gtest/gtest.h>

#include <filesystem>

#include "run/record/checkpoint.h"
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

// What a checkpoint knows stays with the file.
TEST(ExportWeights, TheFileSaysWhichModelAndClassesItIsOf) {
  ScratchDirectory folder;
  const std::string run = trained_run().run, file = folder / "weights.safetensors";
  const std::string image = trained_run().data.jpegs + "/ring/00000.jpg";
  ASSERT_EQ(run_dlpipe({"export-weights", run, "-o", file}).exit_code, 0);
  const Outcome own = run_dlpipe({"predict", "--ckpt", run, image, "--json"});
  const Outcome exported = run_dlpipe({"predict", "--ckpt", file, image, "--json"});
  EXPECT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_EQ(exported.out, own.out);
  const Outcome info = run_dlpipe({"info", file});
  EXPECT_NE(info.out.find("lenet, as recorded in the file"), std::string::npos) << info.out;
  EXPECT_NE(info.out.find("'ring'"), std::string::npos) << info.out;
  EXPECT_NE(run_dlpipe({"info", file, "--json"}).out.find("\"kind\":\"safetensors\""), std::string::npos);
  const Outcome other = run_dlpipe({"predict", "--ckpt", file, "--model", "mlp", image});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("holds weights of lenet, not of mlp"), std::string::npos) << other.err;
  // Names that are given go before the file's, and a folder of splits names them too.
  const Outcome named = run_dlpipe(
      {"predict", "--ckpt", file, "--model", "lenet", "--classes", trained_run().data.val, image, "--json"});
  EXPECT_EQ(named.out, own.out) << named.err;
}

TEST(ExportWeights, RefusesToReplaceAFileAndSaysWhatIsNoCheckpoint) {
  ScratchDirectory folder;
  const std::string file = folder / "weights.safetensors";
  ASSERT_EQ(run_dlpipe({"export-weights", trained_run().run, "-o", file}).exit_code, 0);
  const auto size = std::filesystem::file_size(file);
  const Outcome foreign = run_dlpipe({"export-weights", trained_run().run, "-o", folder / "w.pt"});
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_NE(foreign.err.find("use .safetensors"), std::string::npos) << foreign.err;
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
