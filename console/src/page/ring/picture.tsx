/** The ring as a circle: inside the arcs that members own, outside the arcs that they will own. */
import { arcPath, middleOf, pointAt } from "../../part/picture/arc";
import { letterOf } from "../../part/member";
import { useText } from "../../text";
import type { Ring } from ".";

const OUTER = 132;
const INNER = 96;
const WANTED = 142;
const ROOM_FOR_LETTER = 6;

interface PictureProps {
  ring: Ring;
  selected: number | null;
  onSelect: (id: number | null) => void;
}

export function RingPicture({ ring, selected, onSelect }: PictureProps) {
  const { t, f } = useText();
  const told = ring.members
    .map((member, index) => `${letterOf(index)} ${f.percent(member.share)}`)
    .join(", ");
  return (
    <svg className="ring" viewBox="-160 -160 320 320" role="img" aria-label={t.ring.told(told)}>
      <path
        className="ground"
        fillRule="evenodd"
        d={arcPath({ begin: 0, end: ring.buckets }, ring.buckets, INNER, OUTER)}
      />
      {ring.members.map((member, index) => (
        <g
          key={member.id}
          className={`arc member-${index % 8} ${selected !== null && selected !== member.id ? "dim" : ""}`}
          onClick={() => onSelect(selected === member.id ? null : member.id)}
        >
          <title>{`${letterOf(index)} · ${member.host} ${member.pid} · ${f.percent(member.share)}`}</title>
          {member.buckets.map((arc) => (
            <path
              key={arc.begin}
              fillRule="evenodd"
              d={arcPath(arc, ring.buckets, INNER, OUTER)}
              className={member.is_alive ? "owned" : "owned silent"}
            />
          ))}
          <path
            className="wanted"
            fillRule="evenodd"
            d={arcPath(member.wanted, ring.buckets, WANTED, WANTED + 4)}
          />
          {member.buckets.map((arc) => {
            if (arc.end - arc.begin < ROOM_FOR_LETTER) return null;
            const place = pointAt(middleOf(arc), ring.buckets, (INNER + OUTER) / 2);
            return (
              <text key={arc.begin} x={place.x} y={place.y + 5} textAnchor="middle">
                {letterOf(index)}
              </text>
            );
          })}
        </g>
      ))}
      {ring.careful.map((arc) => (
        <path
          key={arc.begin}
          className="careful"
          fillRule="evenodd"
          d={arcPath(arc, ring.buckets, INNER - 6, INNER - 2)}
        />
      ))}
      <text className="ring-number" textAnchor="middle" y={2}>
        {f.number(ring.members.length)}
      </text>
      <text className="ring-words" textAnchor="middle" y={26}>
        {t.ring.members(ring.members.length)}
      </text>
      <text className="ring-words faint" textAnchor="middle" y={46}>
        {t.ring.owned(f.number(ring.owned), f.number(ring.buckets))}
      </text>
    </svg>
  );
}
