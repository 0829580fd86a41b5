# bash completion for plimsoll

# Where the watched program stands among the words of `plimsoll watch`: its options end at the first word that is none.
_plimsoll_watched() {
    local i=2
    while ((i < COMP_CWORD)); do
        case ${COMP_WORDS[i]} in
        --) i=$((i + 1)); break ;;
        --memory | --on-breach | --json | --trace) i=$((i + 2)) ;;
        -*) i=$((i + 1)) ;;
        *) break ;;
        esac
    done
    echo "$i"
}

_plimsoll() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        # Verbs and options come from the program itself, so that they cannot fall behind it.
        COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" --help 2>/dev/null | awk '/^verbs:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }') --help --version" -- "$cur"))
        return
    fi
    if [[ ${COMP_WORDS[1]} == watch ]]; then
        local at
        at=$(_plimsoll_watched)
        if ((at < COMP_CWORD)); then # the program's own words are completed as it wants them
            if declare -F _command_offset >/dev/null; then _command_offset "$at"; else COMPREPLY=($(compgen -f -- "$cur")); fi
            return
        elif ((at == COMP_CWORD)) && [[ $cur != -* ]]; then
            COMPREPLY=($(compgen -c -- "$cur"))
            return
        fi
    fi
    case $prev in
    --memory) COMPREPLY=($(compgen -W "256M 512M 1G 2G 4G 8G 50% 80%" -- "$cur")); return ;;
    --allow) COMPREPLY=($(compgen -W "f16 bf16 int8" -- "$cur")); return ;;
    --train | --optimizer) COMPREPLY=($(compgen -W "sgd momentum nesterov adam adamw rmsprop" -- "$cur")); return ;;
    --loss) COMPREPLY=($(compgen -W "mse mae bce bce-logits ce ce-logits sparse-ce sparse-ce-logits" -- "$cur")); return ;;
    --lr-schedule) COMPREPLY=($(compgen -W "constant linear cosine cosine:100 step:1000:0.1" -- "$cur")); return ;;
    --on-breach) COMPREPLY=($(compgen -W "enomem report stop" -- "$cur")); return ;;
    --spill) COMPREPLY=($(compgen -d -- "$cur")); return ;;
    --threads | --batch | --dim | --why) return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE '^ +(-., )?--[a-z-]+|^  -[a-z] ' | grep -oE -- '--?[a-z-]+')" -- "$cur"))
    elif [[ ${COMP_WORDS[1]} == size && $cur == *:* ]]; then
        COMPREPLY=($(compgen -W "bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64" -- "${cur##*:}"))
    else
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "${cur#*=}"))
    fi
}
complete -F _plimsoll plimsoll
