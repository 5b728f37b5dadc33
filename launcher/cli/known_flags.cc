#include <array>

#include "base/text.h"
#include "launcher/cli/command_line.h"

namespace ddprun::launcher {

namespace {

// Flags of accelerate launch, deepspeed, Lightning, mpirun, srun and PyTorch's older launchers.
constexpr auto kKnown = std::to_array<KnownFlags>({
    // The number of workers.
    {"num_processes num_procs nprocs world_size",
     "Here it is --nproc_per_node=N, which counts the workers of one node, not of all."},
    {"num_gpus ngpus gpus num_devices devices gpus_per_node npernode ntasks_per_node "
     "nproc_per_host num_workers workers gpus_per_task",
     "Here it is --nproc_per_node=N; --nproc_per_node=gpu starts one worker for each GPU."},
    {"ntasks", "Here it is --nproc_per_node=N on each node. Under SLURM: srun -n N ddprun ..."},
    {"multi_gpu", "Leave it out: --nproc_per_node=N alone starts N workers."},
    {"cpu use_cpu", "Leave it out; --nproc_per_node=cpu starts one worker for each core."},
    {"gpu_ids gres include exclude",
     "Choose GPUs with CUDA_VISIBLE_DEVICES=0,1 in front of ddprun, and start ddprun on the\n"
     "nodes that are to take part."},
    // The number of nodes and their meeting point.
    {"num_machines num_nodes nodes N", "Here it is --nnodes=N."},
    {"machine_rank node_id host_rank", "Here it is --node_rank=N."},
    {"main_process_ip master_address master_ip", "Here it is --master_addr=HOST."},
    {"main_process_port port dist_url", "Here it is --master_port=PORT, with --master_addr=HOST."},
    {"same_network launcher no_ssh no_local_rank deepspeed_multinode_launcher",
     "Leave it out: ddprun starts workers on its own machine, without ssh."},
    {"hosts H machinefile f nodelist w deepspeed_hostfile",
     "Here it is --hostfile=FILE, with a line HOST or HOST slots=N for each host. Under SLURM:\n"
     "srun ddprun ..."},
    {"ssh_port", "Here it is --ssh_command=\"ssh -p PORT\"."},
    {"min_elastic_nodes max_elastic_nodes elastic_training",
     "Here it is --nnodes=MIN:MAX --rdzv_backend=c10d --rdzv_endpoint=HOST:PORT."},
    {"partition p account A time qos job_name J",
     "That is srun's or sbatch's: give it to them, in front of ddprun."},
    // The workers' environment.
    {"num_cpu_threads_per_process cpus_per_task c num_threads",
     "Threads per worker are OMP_NUM_THREADS, which ddprun sets to the cores shared evenly; set\n"
     "the variable to change that."},
    {"bind_cores_to_rank bind_core_list bind_to map_by cpu_bind enable_numa_affinity",
     "Here it is --numa_binding=node, socket, exclusive or core-complex."},
    {"x genv export env",
     "Workers get the whole environment of ddprun: write NAME=VALUE in front of it."},
    {"wdir wd chdir D", "Workers start in the folder in which ddprun is started: cd there first."},
    {"oversubscribe allow_run_as_root mca", "Leave it out: that is mpirun's own."},
    {"dynamo_backend tpu use_xpu ipex main_training_function tpu_cluster use_mps_device",
     "Leave it out: that is accelerate's own, and the script's business here."},
    // Output.
    {"tag_output prepend_rank", "Here it is --label=always."},
    {"output_filename o output e error outfile_pattern stdout stderr enable_each_rank_log",
     "Here it is --log_dir=FOLDER with --redirects=3 or --tee=3."},
    {"verbose v debug", "ddprun says more with --log_level=debug."},
    {"quiet q silent", "ddprun says less with --log_level=error."},
    // Values that stand in a JSON config.
    {"config_file config c_file cfg", "A config is the TARGET: ddprun [options] train.json"},
    {"mixed_precision fp16 bf16 precision",
     "In a JSON config it is training.precision: --set training.precision=bf16. Scripts choose\n"
     "it themselves."},
    {"gradient_accumulation_steps",
     "In a JSON config: --set training.gradient_accumulation_steps=N. Scripts choose it\n"
     "themselves."},
    {"batch_size per_device_train_batch_size",
     "In a JSON config: --set training.per_device_train_batch_size=N. Flags of a script go after\n"
     "it."},
    {"lr learning_rate",
     "In a JSON config: --set optimizer.learning_rate=X. Flags of a script go after it."},
    {"epochs num_epochs num_train_epochs max_epochs",
     "In a JSON config: --set run.max_epochs=N. Flags of a script go after it."},
    {"max_steps steps iters",
     "In a JSON config: --set run.max_steps=N. Flags of a script go after it."},
    {"seed", "In a JSON config: --set run.seed=N. Flags of a script go after it."},
    {"output_dir", "In a JSON config: --set run.output_dir=FOLDER. Flags of a script go after it."},
    // Features that ddprun's command line does not have.
    {"use_fsdp fsdp use_deepspeed deepspeed deepspeed_config zero_stage use_megatron_lm "
     "fsdp_sharding_strategy tensor_parallel pipeline_parallel strategy use_parallelism_config",
     "That is for the script to set up; flags of a script go after it. What JSON configs have of\n"
     "it stands at strategy.type in docs/config.md."},
    {"resume_from_checkpoint ckpt_path",
     "JSON configs: --resume RUN, or run.resume. Flags of a script go after it."},
    {"autotuning", "There is none; --sweep KEY=V1,V2 trains a JSON config once per value."},
    {"profile profiler", "There is none yet in ddprun. Flags of a script go after it."},
});

}  // namespace

std::span<const KnownFlags> AllKnownFlags() {
  return kKnown;
}

std::string_view AnswerFor(std::string_view name) {
  for (const KnownFlags& row : kKnown) {
    for (const std::string_view word : SplitAt(row.words, ' ')) {
      if (word == name) return row.answer;
    }
  }
  return "";
}

}  // namespace ddprun::launcher
