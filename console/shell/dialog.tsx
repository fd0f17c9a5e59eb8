/** A dialog in the look of all dialogs. */
import { Group, Modal } from '@mantine/core';
import type { ReactNode } from 'react';

interface Shown {
  readonly title: string;
  readonly opened: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

export function Dialog({ title, opened, onClose, children }: Shown) {
  return (
    <Modal.Root opened={opened} onClose={onClose} size="lg" centered>
      <Modal.Overlay />
      <Modal.Content>
        {/* The library's own head is a `header`, a second banner of the page. */}
        <Group justify="space-between" wrap="nowrap" p="md" pb={0}>
          <Modal.Title fw={650}>{title}</Modal.Title>
          <Modal.CloseButton aria-label="Close" />
        </Group>
        <Modal.Body p="md">{children}</Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
