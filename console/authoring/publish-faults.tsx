/** Why a package was refused: each fault with its file and line. */
import { Alert, Code, List, Text } from '@mantine/core';
import { Problem, sentenceOf } from '../rest/problem.ts';
import { visibleText } from '../style/visible-text.ts';

export function PublishFaults({ error }: { readonly error: Error }) {
  const faults = error instanceof Problem ? (error.body.errors ?? []) : [];
  return (
    <Alert color="red" role="alert" title="Not accepted">
      <Text size="sm" className="foreign">
        {visibleText(sentenceOf(error))}
      </Text>
      <List size="sm">
        {faults.map(({ path, line, column, field, message }) => {
          const place = [path ?? field, line, column].filter((part) => part !== undefined).join(':');
          return (
            <List.Item key={`${place} ${message}`} className="foreign">
              {place === '' ? null : <Code>{visibleText(place)}</Code>} {visibleText(message)}
            </List.Item>
          );
        })}
      </List>
    </Alert>
  );
}
