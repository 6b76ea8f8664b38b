#include "dlpipe/cli/man_page.h"

#include "dlpipe/base/text.h"
#include "dlpipe/cli/command.h"
#include "dlpipe/cli/help_text.h"
#include "dlpipe/cli/help_topics.h"
#include "dlpipe/run/record/build_info.h"

namespace dlpipe::cli {

namespace {

// As it stands: no dot or quote at a line's beginning is a request, no hyphen or backslash anything else.
std::string roff(const std::string& text) {
  std::string safe;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) safe += "\\&";
    line_begins = c == '\n';
    if (c == '\\')
      safe += "\\e";
    else if (c == '-')
      safe += "\\-";
    else
      safe += c;
  }
  return safe;
}

/// The options of every command are told once, with the program's own.
void add_options(const CommandText& command, bool of_every_command, std::string& page) {
  for (const OptionText& option : command.options) {
    if (option.is_hidden || (option.group == kEveryCommand) != of_every_command) continue;
    page += concat(".TP\n.B ", roff(signature(option)), "\n", roff(full_help(option)), "\n");
  }
}

void add_command(const CommandText& command, std::string& page) {
  page += concat(".SS ", roff(usage(command)), "\n", roff(command.help), ".\n");
  add_options(command, false, page);
  if (!command.footer.empty()) page += concat(".PP\n", roff(command.footer), "\n");
  for (const CommandText& part : command.parts) add_command(part, page);
}

}  // namespace

std::string man_page(const CommandText& program) {
  std::string page =
      concat(".TH DLPIPE 1 \"\" \"", roff(run::build_line()), "\" \"User Commands\"\n",
             ".SH NAME\ndlpipe \\- from a folder of raw files to a trained model\n",
             ".SH SYNOPSIS\n.B dlpipe\n.I COMMAND\n[\\fIOPTIONS\\fR]\n", ".SH DESCRIPTION\n",
             roff(program.help), "\n.PP\n",
             roff("What a command was asked for goes to stdout, as text or with --json as JSON; progress, "
                  "notes, warnings and errors go to stderr."),
             "\n.SH OPTIONS\n");
  add_options(program, false, page);
  page += ".SH OPTIONS OF EVERY COMMAND\n";
  add_options(program, true, page);
  page += ".SH COMMANDS\n";
  for (const CommandText& command : program.parts) add_command(command, page);
  page += ".SH LISTS\nShown by\n.B dlpipe \\-\\-help\n.IR NAME .\n";
  for (const HelpTopic& topic : help_topics())
    page += concat(".TP\n.B ", topic.name, "\n", roff(topic.help), "\n");
  page += concat(".SH EXIT STATUS\n", roff(kExitCodes), "\n");
  page += ".SH ENVIRONMENT\n";
  for (const auto& [name, what] :
       {std::pair("COLUMNS", "Width of --help."),
        {"NO_COLOR", "Set to anything but an empty text: no colours."},
        {"DLPIPE_LOG", "Least level of log lines printed: debug, info, warning or error."},
        {"DLPIPE_KERNELS", "What --kernels auto takes: measured or rules."}})
    page += concat(".TP\n.B ", name, "\n", roff(what), "\n");
  page +=
      ".SH FILES\n.TP\n.I $XDG_CACHE_HOME/dlpipe\nWhich of several kernels is the fastest, one file per CPU "
      "model. Without XDG_CACHE_HOME it is ~/.cache/dlpipe.\n";
  page += ".SH EXAMPLES\n.nf\n";
  for (const char* line : {"dlpipe ingest PICTURES DATA --split 0.9,0.1",
                           "dlpipe train DATA --model resnet18 --augment \"rrc(224) hflip\" --out runs/a",
                           "dlpipe eval --ckpt runs/a DATA", "dlpipe predict --ckpt runs/a PICTURE.jpg"})
    page += roff(line) + "\n";
  return page + ".fi\n";
}

}  // namespace dlpipe::cli
