/** Lists faults of a package with file, line and column. */
import { Anchor, Code, List } from '@mantine/core';
import type { Fault, Place } from '../editor/faults.ts';
import { escapeText } from '../style/untrusted-text.ts';

/** Opens the location of a fault. */
export type OnPlace = (place: Place) => void;

interface FaultListProps {
  readonly faults: readonly Fault[];
  readonly onPlace?: OnPlace | undefined;
}

export function FaultList({ faults, onPlace }: FaultListProps) {
  if (faults.length === 0) return null;
  return (
    <List size="sm">
      {faults.map((fault) => (
        <List.Item key={`${formatPlace(fault)} ${fault.message}`} className="foreign">
          <FaultPlace fault={fault} onPlace={onPlace} /> {escapeText(fault.message)}
        </List.Item>
      ))}
    </List>
  );
}

const formatPlace = ({ path, field, line, column }: Fault): string =>
  escapeText([path ?? field, line, column].filter((part) => part !== undefined).join(':'));

function FaultPlace({ fault, onPlace }: { readonly fault: Fault; readonly onPlace: OnPlace | undefined }) {
  const place = formatPlace(fault);
  const { path, line = 1, column = 1 } = fault;
  if (place === '') return null;
  if (!onPlace || path === undefined) return <Code>{place}</Code>;
  return (
    <Anchor component="button" type="button" ff="monospace" onClick={() => onPlace({ path, line, column })}>
      {place}
    </Anchor>
  );
}
