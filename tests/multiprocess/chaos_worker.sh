# A worker of the chaos test: starts a child that is hard to get rid of, says who it is, and works
# until the test lets it finish. What it starts stays behind on purpose.
#   chaos_worker.sh MARK STYLE
stubborn="trap '' TERM; exec sleep 1000.$1"
case $2 in
  plain) sh -c "$stubborn" & ;;
  session) setsid sh -c "$stubborn" & ;;
  # Only the pipe of its standard error still tells whose it is.
  cleared) env -i PATH="$PATH" setsid sh -c "$stubborn" & ;;
esac
file="$FOLDER/pids/$GROUP_RANK.$LOCAL_RANK.$TORCHELASTIC_RESTART_COUNT"
echo "$$ $! $MASTER_PORT" >"$file.tmp"
mv "$file.tmp" "$file"
while [ ! -e "$FOLDER/finish" ]; do sleep 0.05; done
