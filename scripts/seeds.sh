#!/usr/bin/env bash
# Runs every system of the four notebooks (docs/seeds.md) with ddprun, on logical devices or ranks
# of the CPU, and prints what they show beside what the notebooks printed. Needs a build.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

DDPRUN=${DDPRUN:-$ROOT/build/release/bin/ddprun}
[ -x "$DDPRUN" ] || fail "no ddprun" "$DDPRUN was not found" "run scripts/test.sh, or set DDPRUN"
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT
failed=0

# train NAME RANKS CONFIG [ARGUMENT...]: leaves FOLDER/NAME and its output, FOLDER/NAME.out.
train() {
  local name=$1 ranks=$2 config=$3
  shift 3
  "$DDPRUN" "--nproc_per_node=$ranks" "$config" --set "run.output_dir=$FOLDER/$name" "$@" \
    >"$FOLDER/$name.out" 2>&1 && return
  failed=1
  printf '%s: ddprun --nproc_per_node=%s %s failed:\n' "$name" "$ranks" "$config" >&2
  tail -n 20 "$FOLDER/$name.out" >&2
}

# numbers NAME KEY: of the training lines of a run's metrics, with blanks between them.
numbers() {
  grep '"split":"train"' "$FOLDER/$1/metrics.jsonl" 2>/dev/null |
    sed -n "s/.*\"$2\":\([-0-9.e]*\).*/\1/p" | paste -sd ' '
}

# samples NAME: of each device, for each way in which a batch was cut.
samples() {
  grep '"event":"device_memory"' "$FOLDER/$1/metrics.jsonl" 2>/dev/null |
    sed 's/"samples":/\n/g' | sed -n 's/^\([0-9]*\),.*event.*/\1/p; s/^\([0-9]*\),.*/\1/p' |
    paste -sd '/' | sed 's|\([0-9]*/[0-9]*\)/|\1, |g'
}

# BERT as the notebook trains it, but small and on made-up pairs: neither can be had offline.
write_bert_inputs() {
  local words=(the old boat mill passes un '##finished' A '!')
  printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' "${words[@]}" >"$FOLDER/vocab.txt"
  awk 'BEGIN {
    split("entailment neutral contradiction", labels, " ")
    split("the old boat passes;the mill;A boat !;un the old mill", texts, ";")
    for (i = 0; i < 656; ++i) {
      printf "{\"sentence1\": \"%s\", ", texts[i % 4 + 1]
      printf "\"sentence2\": \"%s\", ", texts[int(i / 4) % 4 + 1]
      printf "\"gold_label\": \"%s\"}\n", labels[(i % 4 + int(i / 4)) % 3 + 1]
    }
  }' >"$FOLDER/pairs.jsonl"
}
bert() {
  local name=$1 ranks=$2
  shift 2
  train "$name" "$ranks" configs/bert_mnli.json --set model.name_or_path= \
    --set "data.tokenizer=$FOLDER/vocab.txt" --set "data.train_files=$FOLDER/pairs.jsonl" \
    --set model.hidden_size=48 --set model.num_hidden_layers=2 --set model.num_attention_heads=4 \
    --set model.vocab_size=14 --set data.max_seq_length=16 --set model.max_position_embeddings=16 \
    --set data.shuffle=false --set run.max_steps=41 "$@"
}

row() { printf '| %s | %s | %s |\n' "$1" "$2" "${3:-(failed)}"; }
seeds=configs/seeds

write_bert_inputs
four='strategy.devices=["cpu", "cpu", "cpu", "cpu"]'
bert bert_dp 1 --set strategy.type=dp --set "$four" --set training.per_device_train_batch_size=4
bert bert_loss 1 --set strategy.type=dp --set "$four" --set strategy.loss=parallel \
  --set training.per_device_train_batch_size=4
bert bert_ddp 4 --set training.per_device_train_batch_size=4
train single 1 $seeds/linear.json
train dp 1 $seeds/data_parallel.json
train output 1 $seeds/data_parallel_output.json
train loss 1 $seeds/data_parallel_loss.json
train mlp 1 $seeds/random_mlp.json
train ddp 2 $seeds/random_mlp.json --set report.state_hashes=true
train toy 2 $seeds/toy.json
train toy_alone 1 $seeds/toy.json --set run.max_epochs=1
train lightning 2 $seeds/linear_adam.json
train layers 1 $seeds/layers_on_devices.json
train tensor 2 $seeds/tensor_parallel.json
train zero3 4 $seeds/deepspeed_stage_3.json

every_ten() { numbers "$1" loss | awk '{ for (i = 1; i <= NF; ++i) printf "%.4f ", $i }'; }
gathered() { sed -n 's/.*gathered \(\[.*\]\).*/\1/p' "$FOLDER/$1.out" | head -n 1; }
ends() { numbers "$1" loss | awk 'NF { printf "%.4f to %.4f", $1, $NF }'; }

printf '| system | the notebook | here |\n| --- | --- | --- |\n'
row "BERT, DataParallel: loss every 10 steps" "step:0, step:10, ..." "$(every_ten bert_dp)"
row "BERT, loss inside forward" "the same" "$(every_ten bert_loss)"
row "BERT, DDP" "the same batches" "$(every_ten bert_ddp)"
row "one device: samples of each batch" "30 30 30 10" "$(numbers single samples)"
row "DataParallel: samples of each batch" "30 30 30 10" "$(numbers dp samples)"
row "DataParallel: of each device" "15/15, 5/5" "$(samples dp)"
row "DataParallel: outputs on the output device" "[1000, 10]" "$(gathered output)"
row "loss inside forward: losses there" "[2], one of each device" "$(gathered loss)"
row "both: the loss" "the same" "$(every_ten output)$(every_ten loss)"
row "two layers: train_loss" "2.1911" \
  "$(numbers mlp loss | awk 'NF { printf "%.4f", $1 + $2 }')"
differ() { grep -c '"others"' "$FOLDER/$1/state_hashes.jsonl" 2>/dev/null || true; }
row "DDP: weights that differ between replicas" "maxdiff 0.0" "$(differ ddp)"
row "DDP, toy network: loss" "" "$(ends toy)"
row "Lightning, ddp: loss" "" "$(ends lightning)"
row "toy network, one device: loss" "" "$(ends toy_alone)"
row "layers on two devices: loss" "the same" "$(ends layers)"
placement() { sed -n 's/.*\(stage [0-9]* on .*\)/\1/p' "$FOLDER/$1.out" | paste -sd ';'; }
row "layers on two devices: where they lie" "one on each" "$(placement layers)"
row "tensor parallel: loss" "" "$(ends tensor)"
row "deepspeed_stage_3, precision 16: loss" "" "$(ends zero3)"
exit $failed
