#!/usr/bin/env bash
# One torchrun per node:
#   sbatch --nodes=2 --gpus-per-node=8 launch/slurm.sh --preset base --dataset data/train ...
# Slurm sends USR1 two minutes before the time limit: the run saves and stops, and this script queues
# the job again until the run is finished. Pass --model_folder here, not in a --config file.
#SBATCH --job-name=translate_ddp
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
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
began=$(mktemp)
trap 'rm -f "$began"' EXIT

head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=100   # seconds to save before torchrun kills its ranks
code=0
srun torchrun \
    --nnodes="$SLURM_JOB_NUM_NODES" \
    --nproc-per-node="${SLURM_GPUS_ON_NODE:-1}" \
    --rdzv-id="$SLURM_JOB_ID" \
    --rdzv-backend=c10d \
    --rdzv-endpoint="$head_node:29400" \
    --signals-to-handle=SIGTERM,SIGINT,SIGUSR1 \
    train.py "$@" || code=$?

# torchrun exits with 1 for a stopped and for a failed run; STATUS.json distinguishes them. One that
# is older than this job step was written by an earlier start.
if [[ $status -nt $began ]] && grep -q '"state": "preempted"' "$status"; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
