// The time in which all weights of a net travel to another machine, which formulas for parameter servers need.

#include <fmt/core.h>

#include "bench/commands.hpp"
#include "bench/raw_socket.hpp"
#include "bench/receivers.hpp"
#include "bench/statistics.hpp"
#include "bench/transfer.hpp"
#include "master/commands/options.hpp"
#include "wire/keys.hpp"

namespace convoy {
namespace {

struct TransferOptions {
  std::string net = "nets/squeezenet.yaml";
  std::vector<std::string> set;
  int repeats = 15;
  std::string listen;   ///< this machine sends to a machine that connects here
  std::string connect;  ///< this machine receives from a machine that listens there
  std::string key;
  bool insecure = false;
  std::string format = "text";
};

constexpr std::chrono::seconds kPatienceWithPeople{600};  ///< until somebody has started the other machine

/// Returns tensors as large as those of the net's weights.
std::vector<Tensor> weights_of(const Net& net) {
  std::vector<Tensor> tensors;
  std::size_t bytes = 0;
  for (const std::size_t size : tensor_sizes(net)) {
    tensors.emplace_back(Shape{1, 1, 1, static_cast<int>(size)}, 1.0F);
    bytes += tensors.back().bytes();
  }
  if (bytes == 0) fail("{}: no layer of the net has weights, so nothing travels", net.file);
  if (bytes > kMostTransferBytes) {
    fail("{}: the weights have {} bytes; {} are the most", net.file, bytes, kMostTransferBytes);
  }
  return tensors;
}

std::string invitation(const TransferOptions& options, const std::string& key) {
  return fmt::format("on the other machine run: {}convoy-bench transfer --connect tcp://THIS-HOST:{}{}\n",
                     key.empty() ? "" : fmt::format("CONVOY_KEY={} ", key), RawSocket::split(options.listen).second,
                     key.empty() ? " --insecure" : "");
}

void print_transfer(const TransferOptions& options, const Net& net, std::size_t tensors, double bytes,
                    const std::vector<double>& seconds) {
  const Quartiles q = quartiles(seconds);
  if (options.format == "csv") {
    fmt::print("net,tensors,bytes,encrypted,seconds,low,high,mb_s\n{},{},{:.0f},{},{:.6f},{:.6f},{:.6f},{:.2f}\n",
               net.name, tensors, bytes, options.insecure ? 0 : 1, q.median, q.low, q.high, 1e-6 * bytes / q.median);
    return;
  }
  fmt::print("{}: {} tensors, {:.2f} MB, {}encrypted, {}\n", net.name, tensors, 1e-6 * bytes,
             options.insecure ? "not " : "",
             options.listen.empty() ? "to a process of this machine" : "to the other machine");
  fmt::print("{:.4g} s (quartiles {:.4g} to {:.4g}, {} rounds), {:.0f} MB/s\n", q.median, q.low, q.high, seconds.size(),
             1e-6 * bytes / q.median);
}

void run_transfer(const TransferOptions& options) {
  if (!options.connect.empty()) {
    if (options.key.empty() && !options.insecure) {
      fail("the key is missing; paste the line that the other machine prints, or give --insecure on both machines");
    }
    return receive_transfers(options.connect, "", 0, options.insecure ? "" : options.key);
  }
  const Net net = read_net(options.net, options.set);
  const bool remote = !options.listen.empty();
  if (remote) RawSocket::split(options.listen);
  Receivers receivers(remote ? 0 : 1);
  std::optional<wire::MasterKeys> keys;
  if (!options.insecure) keys = wire::MasterKeys{wire::make_key_pair(), wire::make_key_pair()};
  const std::string key = keys ? to_text(keys->join_key()) : "";
  TransferSender sender(remote ? options.listen : "tcp://127.0.0.1:*", keys);
  receivers.start(sender.endpoint(), 0, key);
  if (remote) fmt::print(stderr, "{}", invitation(options, key));
  const std::vector<Tensor> weights = weights_of(net);
  sender.wait_for_receivers(1, remote ? kPatienceWithPeople : std::chrono::seconds(60));
  std::vector<double> seconds;
  for (int round = -2; round < options.repeats; ++round) {  // two rounds warm up
    const double each = sender.send_tensors(weights);
    if (round >= 0) seconds.push_back(each);
  }
  sender.dismiss();
  std::size_t bytes = 0;
  for (const Tensor& tensor : weights) bytes += tensor.bytes();
  print_transfer(options, net, weights.size(), static_cast<double>(bytes), seconds);
}

}  // namespace

void add_transfer(CLI::App& app) {
  auto options = std::make_shared<TransferOptions>();
  CLI::App& command = *app.add_subcommand(
      "transfer",
      "time in which all weights of a net travel once, in fp32, from this machine's memory to that of another machine, "
      "or of another process: the --t-comm of `convoy-bench estimate`");
  auto* net = command.add_option("--net", options->net, "net file")->capture_default_str();
  add_set_option(command, options->set);
  command.add_option("--repeats", options->repeats, "rounds")->check(whole_number(1, 10000))->capture_default_str();
  auto* listen = command.add_option("--listen", options->listen,
                                    "send to another machine that connects here, for example tcp://*:5580");
  command.add_option("--connect", options->connect, "receive from the machine that listens there")
      ->excludes(listen)
      ->excludes(net);
  command.add_option("--key", options->key, "with --connect: the key that the other machine prints")
      ->envname("CONVOY_KEY");
  command.add_flag("--insecure", options->insecure, "no encryption; the other machine needs the same option");
  command.add_option("--format", options->format, "text or csv")->check(one_of({"text", "csv"}))->capture_default_str();
  command.callback([options] { run_transfer(*options); });
}

}  // namespace convoy
