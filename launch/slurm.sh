#!/usr/bin/env bash
# One torchrun per node:
#   sbatch --nodes=2 --gpus-per-node=8 --cpus-per-task=32 launch/slurm.sh \
#       --preset base --batch_tokens 400000 --lr 1e-3 --dataset data/train --lang_src en --lang_tgt de \
#       --model_folder weights/base
# Slurm sends USR1 two minutes before the time limit: the run saves and stops, and this script queues
# the job again until the run is finished. It does so, too, if a process was lost after the run has
# saved a checkpoint. Pass --model_folder here, not in a --config file.
#
# A task is a whole node's share of the job. No number of CPUs fits all machines, and --exclusive
# would take the GPUs that others could use: pass --cpus-per-task, four or more for each GPU, unless
# your cluster assigns CPUs by GPU. Without GPUs, one process uses all CPUs of the task.
#SBATCH --job-name=translate_ddp
#SBATCH --ntasks-per-node=1
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

folder=weights
for ((i = 1; i <= $#; i++)); do
    case ${!i} in
        --model[_-]folder) next=$((i + 1)) && folder=${!next} ;;
        --model[_-]folder=*) folder=${!i#*=} ;;
    esac
done
status=$folder/STATUS.json
before=$(cat "$status" 2>/dev/null || true)
saved=$(ls "$folder"/*.pt 2>/dev/null || true)

head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))   # jobs that share a machine need different ones
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=100   # seconds to save before torchrun kills its ranks
cpus=()  # since Slurm 22.05, srun does not take it over from sbatch
[[ -z ${SLURM_CPUS_PER_TASK:-} ]] || cpus=(--cpus-per-task="$SLURM_CPUS_PER_TASK")
code=0
srun "${cpus[@]}" python launch/torchrun.py \
    --nnodes="$SLURM_JOB_NUM_NODES" \
    --nproc-per-node="${SLURM_GPUS_ON_NODE:-1}" \
    --rdzv-id="$SLURM_JOB_ID" \
    --rdzv-backend=c10d \
    --rdzv-endpoint="$head_node:$port" \
    --signals-to-handle=SIGTERM,SIGINT,SIGUSR1,SIGUSR2 \
    train.py "$@" || code=$?

# The exit code of torchrun does not tell a stopped run from a failed one; STATUS.json does. An
# unchanged one is of an earlier start. Its time is not compared: clocks of hosts differ.
after=$(cat "$status" 2>/dev/null || true)
state=
[[ $after == "$before" || ! $after =~ '"state": "'([a-z]+) ]] || state=${BASH_REMATCH[1]}
# A process that is lost again before the run has saved would be lost at each start.
[[ $state != lost || $saved == "$(ls "$folder"/*.pt 2>/dev/null)" ]] || state=preempted
if [[ $state == preempted ]]; then
    scontrol requeue "$SLURM_JOB_ID"
    exit
fi
exit "$code"
