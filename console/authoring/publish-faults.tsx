/** Lists the faults of a refused package with file and line. */
import { Alert, Anchor, Code, List, Text } from '@mantine/core';
import { type Fault, getFaults } from '../editor/faults.ts';
import { getErrorMessage } from '../rest/problem.ts';
import { escapeText } from '../style/untrusted-text.ts';

/** Opens the location of a fault. */
export type OnPlace = (place: { readonly path: string; readonly line: number; readonly column: number }) => void;

export function PublishFaults({ error, onPlace }: { readonly error: Error; readonly onPlace?: OnPlace }) {
  const faults = getFaults(error);
  const sentence = getErrorMessage(error);
  // With one fault, the list repeats the sentence.
  const isSaidBelow = faults.length === 1 && sentence.endsWith(faults[0]?.message ?? '');
  return (
    <Alert color="red" role="alert" title="The package is not valid">
      {!isSaidBelow && (
        <Text size="sm" className="foreign">
          {escapeText(sentence)}
        </Text>
      )}
      <List size="sm">
        {faults.map((fault) => (
          <List.Item key={`${formatPlace(fault)} ${fault.message}`} className="foreign">
            <FaultPlace fault={fault} onPlace={onPlace} /> {escapeText(fault.message)}
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}

const formatPlace = ({ path, field, line, column }: Fault): string =>
  escapeText([path ?? field, line, column].filter((part) => part !== undefined).join(':'));

function FaultPlace({ fault, onPlace }: { readonly fault: Fault; readonly onPlace: OnPlace | undefined }) {
  const said = formatPlace(fault);
  const { path, line = 1, column = 1 } = fault;
  if (said === '') return null;
  if (!onPlace || path === undefined) return <Code>{said}</Code>;
  return (
    <Anchor component="button" type="button" ff="monospace" onClick={() => onPlace({ path, line, column })}>
      {said}
    </Anchor>
  );
}
