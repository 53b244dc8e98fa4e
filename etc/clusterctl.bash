# bash completion of clusterctl
_clusterctl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} cmd= i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--addr|--token) ((i++)) ;;
		-*) ;;
		*) cmd=${COMP_WORDS[i]}; break ;;
		esac
	done
	case $cmd in
	"") COMPREPLY=($(compgen -W "--addr --token --json members info join leave force-leave rtt event query monitor kv catalog raft snapshot keyring reload keygen validate dev version help" -- "$cur")) ;;
	members) COMPREPLY=($(compgen -W "--wan --detailed" -- "$cur")) ;;
	join) COMPREPLY=($(compgen -W "--wan --wait" -- "$cur")) ;;
	leave) COMPREPLY=($(compgen -W "--force" -- "$cur")) ;;
	force-leave) COMPREPLY=($(compgen -W "--prune $(clusterctl members 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur")) ;;
	rtt) COMPREPLY=($(compgen -W "--wan $(clusterctl members 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur")) ;;
	event) COMPREPLY=($(compgen -W "fire list watch --node --service --tag --dc --coalesce --name --exec" -- "$cur")) ;;
	query)
		case ${COMP_WORDS[COMP_CWORD - 1]} in
		--node) COMPREPLY=($(compgen -W "$(clusterctl members 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur")) ;;
		*) COMPREPLY=($(compgen -W "answer --node --tag --timeout --no-ack --relay --exec --text" -- "$cur")) ;;
		esac ;;
	monitor)
		case ${COMP_WORDS[COMP_CWORD - 1]} in
		--level) COMPREPLY=($(compgen -W "debug info warn error" -- "$cur")) ;;
		--daemon) COMPREPLY=($(compgen -W "gossipd raftd rpcd" -- "$cur")) ;;
		*) COMPREPLY=($(compgen -W "--level --daemon" -- "$cur")) ;;
		esac ;;
	kv) COMPREPLY=($(compgen -W "get put delete list keys --recurse --stale --cas --flags --dc --separator" -- "$cur")) ;;
	catalog) COMPREPLY=($(compgen -W "nodes services datacenters service --dc --near" -- "$cur")) ;;
	raft) COMPREPLY=($(compgen -W "list-peers remove-peer transfer-leader autopilot recover get set health --stale --force --dry-run --yes" -- "$cur")) ;;
	snapshot)
		case ${COMP_WORDS[COMP_CWORD - 1]} in
		save|restore|inspect|--stale|--yes) COMPREPLY=($(compgen -f -- "$cur")) ;;
		*) COMPREPLY=($(compgen -W "save restore inspect status --stale --yes --dc" -- "$cur")) ;;
		esac ;;
	keyring) COMPREPLY=($(compgen -W "list install use remove export rotate encrypt --force --show-keys --keep-old --key --relay --dir" -- "$cur")) ;;
	keygen) COMPREPLY=($(compgen -W "--pub" -- "$cur") $(compgen -d -- "$cur")) ;;
	validate) COMPREPLY=($(compgen -d -- "$cur")) ;;
	dev) COMPREPLY=($(compgen -W "--http-port --bind --datacenter --node" -- "$cur")) ;;
	esac
}
complete -F _clusterctl clusterctl
