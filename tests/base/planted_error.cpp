// A program with the error that its argument names, which AddressSanitizer and UndefinedBehaviorSanitizer have to report with
// the line where it is. Built and run only with them, where the tests look for the report.
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

namespace {

int overflow(int more) {
  return std::numeric_limits<int>::max() + more;
}

int read_behind(size_t size) {
  const std::unique_ptr<char[]> bytes(new char[size]());
  return *(static_cast<volatile char*>(bytes.get()) + size);
}

int leak(size_t size) {
  static volatile char* hidden = nullptr;
  hidden = new char[size]();
  const int first = hidden[0];
  hidden = nullptr;
  return first;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  int value = 0;
  if (which == "overflow") value = overflow(argc);
  if (which == "heap") value = read_behind(std::strlen(argv[1]));
  if (which == "leak") value = leak(std::strlen(argv[1]));
  std::printf("%d and no report\n", value);
}
