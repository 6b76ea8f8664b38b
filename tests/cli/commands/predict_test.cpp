#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/text.h"
#include "io/formats/json.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

using formats::Json;

static std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty()) lines.push_back(*Json::parse(line));
  }
  return lines;
}

TEST(Predict, EqualsEvalOnTheSameImages) {
  // Every image of the folder, and the dataset made of all of them.
  ScratchDirectory folder;
  const SampleData& data = trained_run().data;
  ASSERT_EQ(run_dlpipe({"ingest", data.jpegs, folder / "all"}).exit_code, 0);
  const Outcome eval = run_dlpipe({"eval", "--ckpt", trained_run().run, "--data", folder / "all", "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  const Outcome predict =
      run_dlpipe({"predict", "--ckpt", trained_run().run, data.jpegs, "--top", "10", "--json"});
  ASSERT_EQ(predict.exit_code, 0) << predict.err;
  const std::vector<Json> lines = json_lines(predict.out);
  double loss = 0;
  int64_t right = 0;
  for (const Json& line : lines) {
    const std::string label = std::filesystem::path(line["path"].as_string()).parent_path().filename();
    right += line["class"].as_string() == label ? 1 : 0;
    for (const Json& entry : line["top"].items()) {
      if (entry["class"].as_string() == label) loss -= std::log(entry["probability"].as_double());
    }
  }
  const Json wanted = *Json::parse(eval.out);
  const auto count = static_cast<double>(lines.size());
  EXPECT_EQ(wanted["samples"].as_int(), static_cast<int64_t>(lines.size()));
  EXPECT_DOUBLE_EQ(wanted["metrics"]["top1"].as_double(), static_cast<double>(right) / count);
  EXPECT_NEAR(wanted["loss"].as_double(), loss / count, 1e-5);
}

TEST(Predict, GivesPathClassProbabilityAndFiveMore) {
  const SampleData& data = trained_run().data;
  const std::string file = data.jpegs + "/ring/00000.jpg";
  const Outcome outcome = run_dlpipe({"predict", "--ckpt", trained_run().run, file, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<Json> lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["path"].as_string(), file);
  const Json::Array& top = lines[0]["top"].items();
  ASSERT_EQ(top.size(), 5u);
  EXPECT_EQ(top[0]["class"].as_string(), lines[0]["class"].as_string());
  for (size_t i = 1; i < top.size(); ++i) {
    EXPECT_LE(top[i]["probability"].as_double(), top[i - 1]["probability"].as_double());
  }
}

TEST(Predict, AFileThatIsNoImageHasItsOwnErrorLineAndTheOthersGoOn) {
  ScratchDirectory folder;
  const SampleData& data = trained_run().data;
  std::filesystem::copy_file(data.jpegs + "/disc/00001.jpg", folder / "b.jpg");
  std::ofstream(folder / "a.jpg") << "not an image";
  const Outcome outcome = run_dlpipe({"predict", "--ckpt", trained_run().run, folder.path(), "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const std::vector<Json> lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0]["error"].as_string(), "");
  EXPECT_TRUE(lines[1].contains("class"));
  EXPECT_NE(outcome.err.find("1 of 2 files"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(folder / "a.jpg"), std::string::npos) << outcome.err;
  // As text only what could be used is on stdout.
  const Outcome text = run_dlpipe({"predict", "--ckpt", trained_run().run, folder.path(), "--top", "2"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_NE(text.err.find(folder / "a.jpg"), std::string::npos) << text.err;
  const std::vector<std::string> cells = split(std::string(trim(text.out)), '\t');
  ASSERT_EQ(cells.size(), 5u) << text.out;
  EXPECT_EQ(cells[0], folder / "b.jpg");
  EXPECT_EQ(cells[1], lines[1]["class"].as_string());
  EXPECT_EQ(cells[2], fixed(lines[1]["probability"].as_double(), 4));
}

TEST(Predict, NamesAreEscapedInTextAndInJson) {
  ScratchDirectory folder;
  const std::string name = folder / "a\tb\n\x1b[31m.jpg";
  std::filesystem::copy_file(trained_run().data.jpegs + "/disc/00001.jpg", name);
  const Outcome text = run_dlpipe({"predict", "--ckpt", trained_run().run, name, "--top", "1"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\t'), 2);
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 1);
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos);
  EXPECT_NE(text.out.find("a\\tb\\n\\u001b[31m.jpg"), std::string::npos) << text.out;
  const Outcome json = run_dlpipe({"predict", "--ckpt", trained_run().run, name, "--json"});
  EXPECT_EQ(json_lines(json.out).at(0)["path"].as_string(), name);
}

TEST(Predict, BareWeightsHaveNumbersForClassesUntilAFileNamesThem) {
  ScratchDirectory folder;
  const SampleData& data = trained_run().data;
  const std::string checkpoint = trained_run().run + "/checkpoints/last";
  const std::string weights = folder / "bare.safetensors";
  std::filesystem::copy_file(checkpoint + "/model.safetensors", weights);
  const std::string file = data.jpegs + "/ring/00000.jpg";
  const Outcome refused = run_dlpipe({"predict", "--ckpt", weights, "--model", "lenet", file});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("--val-augment"), std::string::npos) << refused.err;
  std::ifstream state(checkpoint + "/state.json");
  const std::string text{std::istreambuf_iterator<char>(state), {}};
  const Json model = (*Json::parse(text))["model"];
  const std::vector<std::string> bare = {
      "predict", "--ckpt", weights, "--model", "lenet", "--val-augment", model["val_augment"].as_string(),
      file,      "--json"};
  const Outcome numbered = run_dlpipe(bare);
  ASSERT_EQ(numbered.exit_code, 0) << numbered.err;
  EXPECT_NE(numbered.err.find("classes are numbers"), std::string::npos) << numbered.err;
  const Json whole = json_lines(run_dlpipe({"predict", "--ckpt", checkpoint, file, "--json"}).out).at(0);
  const Json one = json_lines(numbered.out).at(0);
  EXPECT_EQ(one["probability"].as_double(), whole["probability"].as_double());
  EXPECT_EQ(model["classes"].items()[std::stoul(one["class"].as_string())].as_string(),
            whole["class"].as_string());
  std::ofstream names(folder / "names.txt");
  names << "\xef\xbb\xbf";  // as editors on Windows begin a file
  for (const Json& name : model["classes"].items()) names << name.as_string() << "\r\n";
  names.close();
  for (const std::string& from : {folder / "names.txt", data.val, data.split}) {
    std::vector<std::string> named = bare;
    named.insert(named.end(), {"--classes", from});
    EXPECT_EQ(json_lines(run_dlpipe(named).out).at(0)["class"].as_string(), whole["class"].as_string())
        << from;
  }
}

TEST(Predict, EndsWithoutFussWhenNobodyReadsAnyMore) {
  const ScratchDirectory folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int reader = open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  RunningProgram program({"predict", "--ckpt", trained_run().run, trained_run().data.jpegs, "--batch", "1"},
                         {.out = folder / "pipe"});
  close(reader);  // the program holds the other end since it was started
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

// One selection: a folder gives ingest and predict the same images.
TEST(Predict, TakesTheImagesThatIngestTakes) {
  const ScratchDirectory dir;
  const std::string image = trained_run().data.jpegs + "/ring/00000.jpg";
  for (const char* name :
       {"src/a/1.jpe", "src/a/2.JFIF", "src/a/deep/3.png", "elsewhere/4.jpeg", "src/b/5.jpg",
        "src/.hidden/6.jpg", "src/__MACOSX/7.jpg", "src/a/.8.jpg", "src/a/9.txt"}) {
    std::filesystem::create_directories(std::filesystem::path(dir / name).parent_path());
    std::filesystem::copy_file(image, dir / name);
  }
  std::filesystem::create_directory_symlink(dir / "elsewhere", dir / "src/linked");
  std::filesystem::create_symlink("gone.jpg", dir / "src/a/dead.jpg");
  ASSERT_EQ(mkfifo((dir / "src/b/pipe.jpg").c_str(), 0600), 0);
  const Outcome predicted = run_dlpipe({"predict", "--ckpt", trained_run().run, dir / "src", "--json"});
  EXPECT_EQ(predicted.exit_code, 1) << "a link to nothing is an image that can't be used";
  std::vector<std::string> names;
  for (const Json& line : json_lines(predicted.out))
    names.push_back(line["path"].as_string().substr((dir / "src/").size()) +
                    (line["error"].is_null() ? "" : " unusable"));
  EXPECT_EQ(names, (std::vector<std::string>{"a/1.jpe", "a/2.JFIF", "a/dead.jpg unusable", "a/deep/3.png",
                                             "b/5.jpg", "linked/4.jpeg"}));
  EXPECT_NE(predicted.err.find("1 x .txt"), std::string::npos) << predicted.err;
  const Outcome made = run_dlpipe({"ingest", dir / "src", dir / "data"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_NE(made.out.find(" 5 "), std::string::npos) << made.out;
  EXPECT_NE(made.err.find("a/dead.jpg: is a link to gone.jpg"), std::string::npos) << made.err;
}

TEST(Predict, StandardInputHoldsPathsOrOneImage) {
  const ScratchDirectory dir;
  const std::string image = trained_run().data.jpegs + "/ring/00000.jpg";
  std::filesystem::create_directories(dir / "folder");
  std::filesystem::copy_file(image, dir / "folder/new\nline.jpg");
  std::ofstream(dir / "paths") << image << "\r\n\n"
                               << dir / "none.jpg"
                               << "\n"
                               << dir / "folder"
                               << "\n";
  const auto run = [&](const std::string& input) {
    return run_dlpipe({"predict", "--ckpt", trained_run().run, "-", "--json"}, {.in = input});
  };
  const Outcome many = run(dir / "paths");
  EXPECT_EQ(many.exit_code, 1) << "one of them is not there";
  const std::vector<Json> lines = json_lines(many.out);
  ASSERT_EQ(lines.size(), 3u) << many.out;
  EXPECT_EQ(lines[0]["path"].as_string(), image);
  EXPECT_NE(lines[1]["error"].as_string().find("no such file"), std::string::npos);
  EXPECT_EQ(lines[2]["path"].as_string(), dir / "folder/new\nline.jpg");
  const Outcome one = run(image);
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const std::vector<Json> single = json_lines(one.out);
  ASSERT_EQ(single.size(), 1u);
  EXPECT_EQ(single[0]["path"].as_string(), "-");
  EXPECT_EQ(single[0]["class"].as_string(), lines[0]["class"].as_string());
  std::ofstream(dir / "zeros") << image << '\0' << dir / "folder/new\nline.jpg" << '\0';
  EXPECT_EQ(json_lines(run(dir / "zeros").out).size(), 2u) << "as find -print0 writes them";
  std::ofstream(dir / "empty");
  EXPECT_EQ(run(dir / "empty").exit_code, 1);
}

/// What a file holds, once it has so many lines or the program has ended.
static std::string wait_for_lines(RunningProgram& program, const std::string& file, int64_t lines) {
  std::string text;
  do {
    text = file_text(file);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  } while (std::count(text.begin(), text.end(), '\n') < lines && !program.ended());
  return text;
}

// Another program writes a path, waits for the answer and writes the next one.
TEST(Predict, AnswersThePathsOfAPipeAsTheyCome) {
  const ScratchDirectory dir;
  const std::string image = trained_run().data.jpegs + "/ring/00000.jpg";
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  const int writer = open((dir / "pipe").c_str(), O_RDWR | O_CLOEXEC);
  std::ofstream(dir / "answers");
  RunningProgram program({"predict", "--ckpt", trained_run().run, "-", "--json"},
                         {.out = dir / "answers", .in = dir / "pipe"});
  const auto say = [&](const std::string& text) {
    ASSERT_EQ(write(writer, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  say("\xef\xbb\xbf" + image + "\n");
  EXPECT_EQ(json_lines(wait_for_lines(program, dir / "answers", 1)).at(0)["path"].as_string(), image);
  say(image + "\n" + dir / "none.jpg" + "\n" + image);  // the last line isn't whole yet
  EXPECT_EQ(json_lines(wait_for_lines(program, dir / "answers", 3)).size(), 3u);
  close(writer);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("1 of 4 files"), std::string::npos) << outcome.err;
  EXPECT_EQ(json_lines(file_text(dir / "answers")).size(), 4u);
}

TEST(Predict, APathThatIsNotThereIsNamedAndTheOthersGoOn) {
  const std::string image = trained_run().data.jpegs + "/ring/00000.jpg";
  const Outcome json =
      run_dlpipe({"predict", "--ckpt", trained_run().run, "/nonexistent.jpg", image, "/nor/this", "--json"});
  EXPECT_EQ(json.exit_code, 1);
  const std::vector<Json> lines = json_lines(json.out);
  ASSERT_EQ(lines.size(), 3u) << json.out << json.err;
  EXPECT_EQ(lines[0]["path"].as_string(), "/nonexistent.jpg");
  EXPECT_NE(lines[0]["error"].as_string().find("no such file"), std::string::npos);
  EXPECT_TRUE(lines[1]["error"].is_null());
  EXPECT_FALSE(lines[2]["error"].is_null());
  // --quiet leaves out notes, not what could not be used.
  const Outcome text =
      run_dlpipe({"predict", "--ckpt", trained_run().run, "/nonexistent.jpg", image, "--quiet"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_TRUE(text.out.starts_with(image)) << text.out;
  EXPECT_NE(text.err.find("/nonexistent.jpg: [predict] there is no such file"), std::string::npos)
      << text.err;
  EXPECT_NE(text.err.find("1 of 2 files"), std::string::npos) << text.err;
}

TEST(Predict, AFolderThatCannotBeListedIsNamedAndTheOthersGoOn) {
  const ScratchDirectory dir;
  const std::string image = trained_run().data.jpegs + "/ring/00000.jpg";
  std::filesystem::create_directories(dir / "part/b");
  std::filesystem::create_directories(dir / "part/c/below");
  std::filesystem::copy_file(image, dir / "part/a.jpg");
  std::filesystem::copy_file(image, dir / "part/c/below/1.jpg");  // behind the one that can't be listed
  std::filesystem::create_symlink(std::string(300, 'n'), dir / "part/b/long");  // no file is called so
  const Outcome outcome = run_dlpipe({"predict", "--ckpt", trained_run().run, dir / "part", image, "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const std::vector<Json> lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 4u) << outcome.out << outcome.err;
  EXPECT_EQ(lines[0]["path"].as_string(), dir / "part/a.jpg");
  EXPECT_EQ(lines[1]["path"].as_string(), dir / "part/b");
  EXPECT_FALSE(lines[1]["error"].is_null());
  EXPECT_EQ(lines[2]["path"].as_string(), dir / "part/c/below/1.jpg");
  EXPECT_TRUE(lines[2]["error"].is_null());
  EXPECT_EQ(lines[3]["path"].as_string(), image);
  EXPECT_NE(outcome.err.find("1 of 4 files"), std::string::npos) << outcome.err;
}

TEST(Predict, ALinkBackToItsFolderIsNamedAndTheOthersGoOn) {
  const ScratchDirectory dir;
  std::filesystem::create_directories(dir / "loop/b");
  std::filesystem::copy_file(trained_run().data.jpegs + "/ring/00000.jpg", dir / "loop/b/a.jpg");
  std::filesystem::create_directory_symlink(dir / "loop", dir / "loop/b/back");
  const Outcome outcome = run_dlpipe({"predict", "--ckpt", trained_run().run, dir / "loop", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_EQ(json_lines(outcome.out).size(), 1u) << outcome.out;
  EXPECT_NE(outcome.err.find("links that lead back to themselves or to a folder above them: 'b/back'"),
            std::string::npos)
      << outcome.err;
}

TEST(Predict, NamesWhatIsNotAnImageAndContinues) {
  const ScratchDirectory dir;
  const std::string compiled = dir / "m.dlg", image = trained_run().data.jpegs + "/ring/00000.jpg";
  ASSERT_EQ(run_dlpipe({"compile", trained_run().run, "-o", compiled}).exit_code, 0);
  const Outcome outcome = run_dlpipe({"predict", "--ckpt", trained_run().run, compiled, image});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("it is a compiled model"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find(image), std::string::npos) << outcome.out;
}

}  // namespace dlpipe::test
