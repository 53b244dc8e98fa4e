# bash completion of clusterctl: it tells its words and options itself, and in capitals what else may stand here.
_clusterctl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} word words=
	COMPREPLY=()
	for word in $(clusterctl --complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null); do
		case $word in
		NODE|SERVER) words+=" $(clusterctl members 2>/dev/null | awk 'NR > 1 { print $1 }')" ;;
		POLICY) words+=" $(clusterctl acl policy list 2>/dev/null | awk 'NR > 1 { print $2 }')" ;;
		ROLE) words+=" $(clusterctl acl role list 2>/dev/null | awk 'NR > 1 { print $2 }')" ;;
		METHOD) words+=" $(clusterctl acl auth-method list 2>/dev/null | awk 'NR > 1 { print $1 }')" ;;
		ACCESSOR) words+=" $(clusterctl acl token list 2>/dev/null | awk 'NR > 1 { print $1 }')" ;;
		FILE) COMPREPLY+=($(compgen -f -- "$cur")) ;;
		DIR) COMPREPLY+=($(compgen -d -- "$cur")) ;;
		*[A-Z]*) ;;
		*) words+=" $word" ;;
		esac
	done
	COMPREPLY+=($(compgen -W "$words" -- "$cur"))
}
complete -F _clusterctl clusterctl
