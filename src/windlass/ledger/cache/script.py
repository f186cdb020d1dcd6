"""The scripts by which a cache decides; each is atomic.

An epoch is one hash: the server that it belongs to, and for each SKU how much was allotted
(`limit:SKU`) and how much was taken (`sold:SKU`). Both only grow within an epoch. Beside it there
is a key for each id that was taken, for a limited time, and a hash of the decisions of which
nobody has said yet that they are recorded.

A server is trusted only if it is the one that got the epoch from the book. `run_id` is new at each
start and `master_replid` at each change of roles, so a server that was restarted from an old
snapshot, or that is another one after a failover, is not. Both are asked in the script itself:
nothing can happen between the question and the decision.
"""

# KEYS[1] is the epoch in every script.
TRUSTED = """
local epoch = KEYS[1]
local pending = epoch .. '#pending'
local function server()
  local own, of = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
  return string.match(own, 'run_id:(%x+)') .. ':' .. string.match(of, 'master_replid:(%x+)')
end
local function trusted() return redis.call('HGET', epoch, 'server') == server() end
local function whole(number) return string.format('%.0f', number) end
"""

# ARGV: the name of the decision, for how many seconds ids are remembered, the SKUs and requests,
# and the names of decisions that are recorded. A request is its id, the mark of its body, and its
# lines: the place of the SKU, the quantity. Answers: how much is left of each SKU, and for each
# request 0 (taken), the name of the decision that took it before (with an x in front: for another
# body), or the place of the SKU of which there is too little and what is left of it.
DECIDE = (
    TRUSTED
    + """
if not trusted() then return false end
local name, seconds = ARGV[1], ARGV[2]
local asked = cmsgpack.unpack(ARGV[3])
local skus, limit, sold, changed = asked[1], {}, {}, {}
for place, sku in ipairs(skus) do
  local found = redis.call('HMGET', epoch, 'limit:' .. sku, 'sold:' .. sku)
  limit[place], sold[place] = tonumber(found[1]), tonumber(found[2])
end
local function known(value, mark)
  local by = string.sub(value, 1, 32)
  return string.sub(value, 33) == mark and by or 'x' .. by
end
local answers, some = {}, false
for number, request in ipairs(asked[2]) do
  local short = nil
  for at = 3, #request, 2 do
    local place = request[at]
    local left = limit[place] and limit[place] - sold[place] or -1
    if request[at + 1] > left then
      short = {place, left}
      break
    end
  end
  local key = epoch .. ':' .. request[1]
  if short then
    local value = redis.call('GET', key)
    answers[number] = value and known(value, request[2]) or short
  elseif redis.call('SET', key, name .. request[2], 'NX', 'EX', seconds) then
    for at = 3, #request, 2 do
      local place = request[at]
      sold[place] = sold[place] + request[at + 1]
      changed[place] = true
    end
    answers[number], some = 0, true
  else
    answers[number] = known(redis.call('GET', key), request[2])
  end
end
for place in pairs(changed) do
  redis.call('HSET', epoch, 'sold:' .. skus[place], whole(sold[place]))
end
if some then redis.call('HSET', pending, name, ARGV[4]) end
for at = 5, #ARGV do redis.call('HDEL', pending, ARGV[at]) end
local left = {}
for place in ipairs(skus) do left[place] = limit[place] and limit[place] - sold[place] or -1 end
return cmsgpack.pack({left, answers})
"""
)

# ARGV: requests as above with SKUs for places. What a decision took comes back.
UNDO = (
    TRUSTED
    + """
if not trusted() then return false end
local name = ARGV[1]
for _, request in ipairs(cmsgpack.unpack(ARGV[2])) do
  local key = epoch .. ':' .. request[1]
  local value = redis.call('GET', key)
  if value and string.sub(value, 1, 32) == name then
    redis.call('DEL', key)
    for at = 3, #request, 2 do
      local field = 'sold:' .. request[at]
      local before = tonumber(redis.call('HGET', epoch, field))
      redis.call('HSET', epoch, field, whole(before - request[at + 1]))
    end
  end
end
return 1
"""
)

# Begins an epoch. KEYS[2]: the epoch before. ARGV: SKUs with limit and sold.
OPEN = (
    TRUSTED
    + """
redis.call('DEL', epoch, pending)
for _, row in ipairs(cmsgpack.unpack(ARGV[1])) do
  redis.call('HSET', epoch, 'limit:' .. row[1], whole(row[2]), 'sold:' .. row[1], whole(row[3]))
end
redis.call('HSET', epoch, 'server', server())
if KEYS[2] ~= '' then redis.call('UNLINK', KEYS[2], KEYS[2] .. '#pending') end
return 1
"""
)

# Raises limits. ARGV: SKUs with limit, and sold if the cache does not have the SKU.
LIMIT = (
    TRUSTED
    + """
if not trusted() then return false end
for _, row in ipairs(cmsgpack.unpack(ARGV[1])) do
  redis.call('HSETNX', epoch, 'sold:' .. row[1], whole(row[3]))
  local before = tonumber(redis.call('HGET', epoch, 'limit:' .. row[1]) or 0)
  if row[2] > before then redis.call('HSET', epoch, 'limit:' .. row[1], whole(row[2])) end
end
return 1
"""
)

# What is left of SKUs, and whether the epoch is trusted.
LOOK = (
    TRUSTED
    + """
if not trusted() then return false end
local found = {}
for place, sku in ipairs(ARGV) do
  local row = redis.call('HMGET', epoch, 'limit:' .. sku, 'sold:' .. sku)
  found[place] = {row[1] or '', row[2] or ''}
end
return cmsgpack.pack(found)
"""
)

# Forgets decisions that are recorded. ARGV: their names.
SETTLE = (
    TRUSTED
    + """
for _, name in ipairs(ARGV) do redis.call('HDEL', pending, name) end
return 1
"""
)
